package userdata

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Content types of parts.
const (
	typeShell      = `text/x-shellscript; charset="us-ascii"`
	typeNodeConfig = "application/node.eks.aws"
)

// part is one document of an archive.
type part struct {
	header textproto.MIMEHeader
	body   string
}

func newPart(contentType, body string) part {
	return part{header: textproto.MIMEHeader{"Content-Type": {contentType}}, body: body}
}

// isArchive reports whether a text is a MIME document.
func isArchive(text string) bool {
	text = strings.TrimSpace(text)
	return hasPrefixFold(text, "MIME-Version:") || hasPrefixFold(text, "Content-Type:")
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// readArchive splits a MIME document into its parts, in order. A document that is not multipart is
// its own only part.
func readArchive(text string) ([]part, error) {
	message, err := mail.ReadMessage(strings.NewReader(strings.TrimSpace(text) + "\n"))
	if err != nil {
		return nil, fmt.Errorf("user data starts like a MIME document but is none: %w", err)
	}
	media, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("user data: the Content-Type of the MIME document: %w", err)
	}
	body, err := io.ReadAll(message.Body)
	if err != nil {
		return nil, fmt.Errorf("user data: the MIME document: %w", err)
	}
	if !strings.HasPrefix(media, "multipart/") {
		header := textproto.MIMEHeader{}
		for key, values := range message.Header {
			if strings.HasPrefix(key, "Content-") {
				header[key] = values
			}
		}
		return []part{{header: header, body: string(body)}}, nil
	}
	if params["boundary"] == "" {
		return nil, errors.New("user data: the multipart MIME document names no boundary")
	}
	// A document whose end was cut off ends here; after a proper end this is ignored.
	whole := string(body) + "\n--" + params["boundary"] + "--\n"
	reader := multipart.NewReader(strings.NewReader(whole), params["boundary"])
	var parts []part
	for {
		next, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("user data: part %d of the MIME document: %w", len(parts)+1, err)
		}
		content, err := io.ReadAll(next)
		if err != nil {
			return nil, fmt.Errorf("user data: part %d of the MIME document: %w", len(parts)+1, err)
		}
		parts = append(parts, part{header: next.Header, body: string(content)})
	}
}

// writeArchive joins parts. Carriage returns are left out: shells on Linux stumble over them.
func writeArchive(parts []part) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, strings.ReplaceAll(p.text(), "\r", ""))
	}
	between := boundary(texts)
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + between + "\"\n\n")
	for _, text := range texts {
		b.WriteString("--" + between + "\n" + text + "\n")
	}
	b.WriteString("--" + between + "--\n")
	return b.String()
}

func (p part) text() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p.header)) {
		for _, value := range p.header[key] {
			b.WriteString(key + ": " + value + "\n")
		}
	}
	b.WriteString("\n" + p.body)
	return b.String()
}

// boundary is "//", or something like it that no part contains: a part that did would end the document
// before the generated part.
func boundary(texts []string) string {
	name := "//"
	for n := 1; slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "--"+name) }); n++ {
		name = "//" + strconv.Itoa(n)
	}
	return name
}
