package awsemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// CredentialsPath is where a pod with pod identity gets its credentials: the path of
// AWS_CONTAINER_CREDENTIALS_FULL_URI.
const CredentialsPath = "/_dovetail-credentials"

// Audiences of the tokens that EKS gives to pods, and the service that pod identity is.
const (
	PodIdentityAudience = "pods.eks.amazonaws.com"
	IRSAAudience        = stsAudience
	podIdentityService  = "pods.eks.amazonaws.com"
)

// podCredentialsValid is how long the agent of pod identity makes credentials last.
const podCredentialsValid = 6 * time.Hour

func (e *Emulator) registerPodCredentials() {
	e.registerMutating(wire.EKSAuth, "AssumeRoleForPodIdentity", e.assumeRoleForPodIdentity)
}

// serveCredentials responds as the agent of pod identity does, which queries EKS on behalf of the pod that shows its token.
func (e *Emulator) serveCredentials(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		refuseCredentials(w, &wire.Error{Code: "MethodNotAllowed", Message: "credentials are read with GET", Status: http.StatusMethodNotAllowed})
		return
	}
	body, err := json.Marshal(map[string]string{"token": r.Header.Get("Authorization")})
	if err != nil {
		body = nil // cannot happen: a text
	}
	c := &call{emu: e, gone: r.Context().Done(), Request: &wire.Request{
		Service: wire.EKSAuth, Action: "AssumeRoleForPodIdentity", Region: e.fixture.Region, Host: r.Host, ID: e.newID("req-"), Body: body,
		Path: "/clusters/" + e.fixture.Cluster + "/assume-role-for-pod-identity",
	}}
	value, _, _, err := e.handle(c)
	if err != nil {
		refuseCredentials(w, err)
		return
	}
	writeJSON(w, http.StatusOK, value)
}

// assumeRoleForPodIdentity gives a pod the credentials of the role that its service account is associated with.
func (e *Emulator) assumeRoleForPodIdentity(c *call) (any, error) {
	var in struct{ Token string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.Token == "" {
		return nil, wire.Errorf("InvalidParameterException", "Service account token cannot be empty")
	}
	token, err := e.podToken(in.Token)
	if err != nil {
		return nil, err
	}
	cluster := token.Cluster
	id, found := e.podAssociation(cluster.Namespace, cluster.Account.Name)
	if !found {
		return nil, wire.Errorf("ResourceNotFoundException", "No pod identity association was found in the cluster %s for the service account %s of the namespace %s", e.fixture.Cluster, cluster.Account.Name, cluster.Namespace)
	}
	association := e.eksState().Associations[id]
	role, found := e.roleByARN(association.Role)
	context := map[string][]string{"aws:SourceAccount": {e.fixture.Account}, "aws:SourceArn": {e.accountARN("eks", "cluster/"+association.Cluster)}}
	tags := e.sessionTags(association.Cluster, token)
	if !association.NoSessionTags {
		context[keyTagKeys] = slices.Sorted(maps.Keys(tags))
		for key, value := range tags {
			context[keyRequestTag+key] = []string{value}
		}
	}
	pods := policy.Principal{Kind: principalService, Names: []string{podIdentityService}}
	if !found || !role.trustsPrincipal(pods, assumeRoleAction, context) || !association.NoSessionTags && !role.trustsPrincipal(pods, tagSessionAction, context) {
		return nil, wire.Errorf("AccessDeniedException", "Unauthorized Exception! EKS does not have permissions to assume the associated role.")
	}
	name := "eks-" + association.Cluster + "-" + cluster.Pod.Name
	given := e.issueCredentials(role.Name, name[:min(len(name), 46)]+"-"+e.nextID(""), podCredentialsValid)
	return map[string]string{
		"AccessKeyId": given.key, "SecretAccessKey": given.secret, "Token": given.token,
		"AccountId": e.fixture.Account, "Expiration": given.expires.UTC().Format(time.RFC3339),
	}, nil
}

// podToken checks the token that a pod shows to the agent.
func (e *Emulator) podToken(raw string) (serviceToken, error) {
	token, err := readToken(raw)
	if err == nil {
		err = token.verifySignature(e.tokenKey(token.Issuer))
	}
	if err == nil && !slices.Contains(token.Audience, PodIdentityAudience) {
		err = fmt.Errorf("the audience is not %s", PodIdentityAudience)
	}
	if err != nil {
		return token, wire.Errorf("InvalidTokenException", "The token provided cannot be validated: %s", err.Error())
	}
	if !token.isCurrent(e.clock.wall()) {
		return token, wire.Errorf("ExpiredTokenException", "The token provided is expired")
	}
	return token, nil
}

// sessionTags say which pod a session belongs to.
func (e *Emulator) sessionTags(cluster string, t serviceToken) map[string]string {
	return map[string]string{
		"eks-cluster-arn": e.accountARN("eks", "cluster/"+cluster), "eks-cluster-name": cluster, "kubernetes-namespace": t.Cluster.Namespace,
		"kubernetes-service-account": t.Cluster.Account.Name, "kubernetes-pod-name": t.Cluster.Pod.Name, "kubernetes-pod-uid": t.Cluster.Pod.UID,
	}
}

func refuseCredentials(w http.ResponseWriter, err error) {
	refusal, ours := errors.AsType[*wire.Error](err)
	if !ours {
		refusal = &wire.Error{Code: "InternalServerException", Message: err.Error(), Status: http.StatusInternalServerError}
	}
	status := refusal.Status
	if status == 0 {
		status = wire.Write(&wire.Request{Service: wire.EKSAuth}, nil, refusal).Status
	}
	writeJSON(w, status, map[string]string{"code": refusal.Code, "message": refusal.Message})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone; nothing to do about it
}

// authenticateCaller turns away expired keys, and unknown keys: of sessions always, of others if the known ones are
// listed. Who requests credentials has none yet. The emulator must be locked.
func (e *Emulator) authenticateCaller(c *call) error {
	session, issued := e.iamState().Sessions[c.Key]
	switch {
	case c.Key == "" && (c.Service == wire.STS || c.Service == wire.EKSAuth):
		return nil
	case issued && e.clock.wall().Before(session.Expires):
		return nil
	case issued || strings.HasPrefix(c.Key, temporaryKey):
	case len(e.rules.Keys) == 0 || slices.Contains(e.rules.Keys, c.Key):
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
	case wire.SQS, wire.EKS, wire.EKSAuth, wire.ZonalShift, wire.FIS:
	}
	if issued {
		return expired
	}
	return unknown
}

// sessionsControl shows how long credentials of roles last. PUT changes that for those to come; DELETE ends all that were given out.
func (e *Emulator) sessionsControl() control {
	c := replacingControl(func() *Duration { return &e.rules.Sessions })
	c[http.MethodDelete] = func(*controlRequest) (any, error) {
		for key, session := range e.iamState().Sessions {
			session.Expires = e.clock.wall()
			e.iamState().Sessions[key] = session
		}
		return nil, nil
	}
	return c
}
