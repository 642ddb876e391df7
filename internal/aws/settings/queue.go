package settings

import (
	"net/url"
	"path"
	"strings"
)

// queueName accepts the name of an SQS queue, or its ARN or URL, of which it keeps the name. Empty stays empty: no queue.
func queueName(s string) (string, bool) {
	name := s
	switch {
	case s == "":
		return "", true
	case strings.HasPrefix(s, "arn:"):
		parts := strings.Split(s, ":") // arn:partition:sqs:region:account:name
		if len(parts) != 6 || parts[2] != "sqs" {
			return "", false
		}
		name = parts[5]
	case strings.Contains(s, "://"):
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			return "", false
		}
		name = path.Base(u.Path)
	}
	if len(name) > 80 {
		return "", false
	}
	stem := strings.TrimSuffix(name, ".fifo")
	foreign := strings.ContainsFunc(stem, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	return name, stem != "" && !foreign
}
