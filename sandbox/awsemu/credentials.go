package awsemu

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// credentialsPath is where a pod with pod identity gets its credentials: the value of
// AWS_CONTAINER_CREDENTIALS_FULL_URI.
const credentialsPath = "/_dovetail-credentials"

// podCredentialsValid is how long the agent of pod identity makes credentials last.
const podCredentialsValid = 6 * time.Hour

// serveCredentials answers as the agent of pod identity does: credentials of the controller's role for
// whoever shows a token.
func (e *Emulator) serveCredentials(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		refuseCredentials(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "credentials are read with GET")
		return
	case r.Header.Get("Authorization") == "":
		refuseCredentials(w, http.StatusBadRequest, "AccessDeniedException", "the Authorization header must hold the service account token")
		return
	}
	e.mu.Lock()
	role, found := e.iam().Roles[e.controllerRole()]
	var given issued
	if found {
		given = e.issue(role.Name, "eks-"+e.fixture.Cluster+"-karpenter", podCredentialsValid)
	}
	e.mu.Unlock()
	if !found {
		refuseCredentials(w, http.StatusNotFound, "ResourceNotFoundException", "no pod identity association: the role "+e.controllerRole()+" does not exist")
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{
		"AccessKeyId": given.key, "SecretAccessKey": given.secret, "Token": given.token,
		"AccountId": e.fixture.Account, "Expiration": given.expires.UTC().Format(time.RFC3339),
	})
}

func refuseCredentials(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]string{"code": code, "message": message})
}

func writeJSON(w http.ResponseWriter, status int, value map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone; nothing to do about it
}

// authenticate turns away keys that nobody gave out, if the known ones are listed. Who asks STS for
// credentials has none yet. The emulator must be locked.
func (e *Emulator) authenticate(c *call) error {
	if len(e.rules.Keys) == 0 || slices.Contains(e.rules.Keys, c.Key) || c.Key == "" && c.Service == wire.STS {
		return nil
	}
	session, issued := e.iam().Sessions[c.Key]
	if issued && e.clock.wall().Before(session.Expires) {
		return nil
	}
	unknown := &wire.Error{Code: "UnrecognizedClientException", Message: "The security token included in the request is invalid.", Status: http.StatusForbidden}
	expired := &wire.Error{Code: "ExpiredTokenException", Message: "The security token included in the request is expired", Status: http.StatusForbidden}
	switch c.Service {
	case wire.EC2:
		unknown = &wire.Error{Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials", Status: http.StatusUnauthorized}
		expired = &wire.Error{Code: "RequestExpired", Message: "Request has expired.", Status: http.StatusBadRequest}
	case wire.IAM, wire.STS:
		unknown.Code, expired.Code = "InvalidClientTokenId", "ExpiredToken"
	case wire.SSM, wire.Pricing, wire.Events:
		unknown.Status, expired.Status = http.StatusBadRequest, http.StatusBadRequest
	case wire.SQS, wire.EKS, wire.ZonalShift, wire.FIS:
	}
	if issued {
		return expired
	}
	return unknown
}
