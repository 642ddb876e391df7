package awsemu

import (
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// clusterTokenPrefix begins what `aws eks get-token` prints.
const clusterTokenPrefix = "k8s-aws-v1."

// User is who a token of AWS is in the cluster.
type User struct {
	Name   string
	Groups []string
}

// ReviewToken says who shows a token, as EKS does: the token is a signed question to STS, and the access entries of the
// clusters decide which users they admit. A user with a key of the account created its clusters, and may do everything there.
func (e *Emulator) ReviewToken(token string) (User, error) {
	encoded, ours := strings.CutPrefix(token, clusterTokenPrefix)
	if !ours {
		return User{}, errors.New("it is no token of AWS")
	}
	question, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return User{}, err
	}
	signed, err := url.Parse(string(question))
	if err != nil {
		return User{}, err
	}
	query := signed.Query()
	key, _, _ := strings.Cut(query.Get("X-Amz-Credential"), "/")
	if query.Get("Action") != "GetCallerIdentity" || key == "" {
		return User{}, errors.New("it is no question who the caller is")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	session, found := e.iamState().Sessions[key]
	if !found {
		return User{Name: e.callerARN(key), Groups: []string{"system:masters"}}, nil
	}
	role := e.accountARN("iam", "role"+e.iamState().Roles[session.Role].Path+session.Role)
	for _, cluster := range e.allClusters() {
		at := slices.IndexFunc(cluster.AccessEntries, func(a AccessEntry) bool { return a.Principal == role && a.Type == entryStandard })
		if at >= 0 {
			return User{Name: e.callerARN(key), Groups: cluster.AccessEntries[at].Groups}, nil
		}
	}
	return User{}, errors.New("no access entry lets " + role + " into the cluster")
}
