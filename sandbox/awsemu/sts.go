package awsemu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Session is who a temporary access key acts as.
type Session struct {
	Role    string    `json:"role"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// maxSessions bounds the sessions that are kept; a client requests one per hour.
const maxSessions = 1000

const (
	assumeRoleAction  = "sts:AssumeRole"
	tagSessionAction  = "sts:TagSession"
	webIdentityAction = "sts:AssumeRoleWithWebIdentity"

	// stsAudience is whom a token for AssumeRoleWithWebIdentity is meant for.
	stsAudience = "sts.amazonaws.com"

	invalidToken = "InvalidIdentityToken"
	// temporaryKey is how the access keys of sessions begin.
	temporaryKey = "ASIA"
)

func (e *Emulator) registerSTS() {
	e.register(wire.STS, "GetCallerIdentity", e.getCallerIdentity)
	e.registerMutating(wire.STS, "AssumeRole", e.assumeRole)
	e.registerMutating(wire.STS, "AssumeRoleWithWebIdentity", e.assumeRoleWithWebIdentity)
}

type credentialsXML struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      string
}

type assumedUserXML struct {
	AssumedRoleID string `xml:"AssumedRoleId"`
	Arn           string
}

type assumeResult struct {
	Credentials                 credentialsXML
	AssumedRoleUser             assumedUserXML
	SubjectFromWebIdentityToken string `xml:",omitempty"`
	Audience                    string `xml:",omitempty"`
	Provider                    string `xml:",omitempty"`
}

func (e *Emulator) getCallerIdentity(c *call) (any, error) {
	if c.Key == "" {
		return nil, &wire.Error{Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token", Status: 403}
	}
	out := struct{ Arn, UserId, Account string }{Account: e.fixture.Account}
	if session, found := e.iamState().Sessions[c.Key]; found {
		out.Arn = e.callerARN(c.Key)
		out.UserId = e.iamState().Roles[session.Role].ID + ":" + session.Name
		return out, nil
	}
	out.Arn, out.UserId = e.callerARN(c.Key), c.Key
	return out, nil
}

func (e *Emulator) assumeRole(c *call) (any, error) {
	if c.Key == "" {
		return nil, &wire.Error{Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token", Status: 403}
	}
	return e.issueForRole(c, assumption{action: assumeRoleAction, who: e.callerPrincipal(c.Key), refusal: fmt.Sprintf(
		"User: %s is not authorized to perform: %s on resource: %s", e.callerARN(c.Key), assumeRoleAction, c.Form.String("RoleArn"))})
}

// callerPrincipal is the caller by every name that trust policies have for it: its own, its role's, and its account's.
func (e *Emulator) callerPrincipal(key string) policy.Principal {
	names := []string{e.callerARN(key), e.accountARN("iam", "root"), e.fixture.Account}
	if session, found := e.iamState().Sessions[key]; found {
		names = append(names, e.accountARN("iam", "role"+e.iamState().Roles[session.Role].Path+session.Role))
	}
	return policy.Principal{Kind: principalAWS, Names: names}
}

func (e *Emulator) assumeRoleWithWebIdentity(c *call) (any, error) {
	raw := c.Form.String("WebIdentityToken")
	if raw == "" {
		return nil, missingMember("webIdentityToken")
	}
	token, err := e.verifyServiceToken(raw)
	if err != nil {
		return nil, err
	}
	issuer := strings.TrimPrefix(token.Issuer, "https://")
	return e.issueForRole(c, assumption{
		action: webIdentityAction, token: token, who: policy.Principal{Kind: principalFederated, Names: []string{e.oidcARN(token.Issuer)}},
		context: map[string][]string{issuer + ":sub": {token.Subject}, issuer + ":aud": token.Audience, issuer + ":iss": {token.Issuer}},
		refusal: "Not authorized to perform " + webIdentityAction,
	})
}

// verifyServiceToken checks the token of a service account: the account must know its issuer, and the issuer have signed it for STS.
func (e *Emulator) verifyServiceToken(raw string) (serviceToken, error) {
	token, err := readToken(raw)
	if err != nil {
		return token, wire.Errorf(invalidToken, "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	provider, found := e.iamState().Providers[e.oidcARN(token.Issuer)]
	if !found {
		return token, wire.Errorf(invalidToken, "No OpenIDConnect provider found in your account for %s", token.Issuer)
	}
	if err := token.verifySignature(e.tokenKey(token.Issuer)); err != nil {
		return token, wire.Errorf(invalidToken, "Couldn't retrieve verification key from your identity provider, please reference AssumeRoleWithWebIdentity documentation for requirements (%s)", err.Error())
	}
	if now := e.clock.wall(); !token.isCurrent(now) {
		return token, wire.Errorf("ExpiredTokenException", "Token expired: current date/time %d must be before the expiration date/time %d", now.Unix(), token.Expires)
	}
	if !slices.ContainsFunc(token.Audience, func(audience string) bool { return slices.Contains(provider.ClientIDs, audience) }) {
		return token, wire.Errorf(invalidToken, "Incorrect token audience")
	}
	return token, nil
}

func missingMember(name string) error {
	return wire.Errorf("ValidationError", "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", name)
}

// assumption is a request to assume a role.
type assumption struct {
	action  string
	who     policy.Principal
	context map[string][]string // what the conditions of a trust policy can request
	token   serviceToken
	refusal string // the message to a caller whom the role does not trust; whether there is such a role is not said
}

// issueForRole gives out credentials of a role to whom it trusts.
func (e *Emulator) issueForRole(c *call, a assumption) (any, error) {
	arn, session := c.Form.String("RoleArn"), c.Form.String("RoleSessionName")
	if arn == "" {
		return nil, missingMember("roleArn")
	}
	if err := validName("roleSessionName", session, 64); err != nil {
		return nil, err
	}
	seconds := c.Form.Int("DurationSeconds", usualSession)
	if seconds < 900 || seconds > 12*usualSession {
		return nil, wire.Errorf("ValidationError", "1 validation error detected: Value '%d' at 'durationSeconds' failed to satisfy constraint: Member must be between 900 and 43200", seconds)
	}
	role, found := e.roleByARN(arn)
	if !found || !role.trustsPrincipal(a.who, a.action, a.context) {
		return nil, wire.Errorf("AccessDenied", "%s", a.refusal)
	}
	if most := cmp.Or(role.MaxSession, usualSession); seconds > most {
		return nil, wire.Errorf("ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	}
	given := e.issueCredentials(role.Name, session, time.Duration(seconds)*time.Second)
	out := assumeResult{
		Credentials: credentialsXML{
			AccessKeyID: given.key, SecretAccessKey: given.secret, SessionToken: given.token, Expiration: given.expires.UTC().Format(time.RFC3339),
		},
		AssumedRoleUser:             assumedUserXML{AssumedRoleID: role.ID + ":" + session, Arn: e.accountARN("sts", "assumed-role/"+role.Name+"/"+session)},
		SubjectFromWebIdentityToken: a.token.Subject,
	}
	if a.token.Issuer != "" {
		out.Provider, out.Audience = e.oidcARN(a.token.Issuer), a.token.Audience[0]
	}
	return out, nil
}

// roleByARN finds the role of arn:aws:iam::<account>:role/<path>/<name>.
func (e *Emulator) roleByARN(arn string) (Role, bool) {
	role, found := e.iamState().Roles[arn[strings.LastIndex(arn, "/")+1:]]
	return role, found && e.accountARN("iam", "role"+role.Path+role.Name) == arn
}

// issued is a set of temporary credentials.
type issued struct {
	key, secret, token string
	expires            time.Time
}

// issueCredentials makes credentials and stores whose they are. They expire by the wall clock: clients compare
// that with the clock of their own host. The emulator must be locked.
func (e *Emulator) issueCredentials(role, session string, valid time.Duration) issued {
	state, now := e.iamState(), e.clock.wall()
	if e.rules.Sessions > 0 {
		valid = time.Duration(e.rules.Sessions)
	}
	if len(state.Sessions) >= maxSessions {
		maps.DeleteFunc(state.Sessions, func(_ string, s Session) bool { return s.Expires.Before(now) })
	}
	if len(state.Sessions) >= maxSessions { // the next to expire is dropped: unknown tokens are refused
		delete(state.Sessions, slices.MinFunc(slices.Sorted(maps.Keys(state.Sessions)), func(a, b string) int {
			return state.Sessions[a].Expires.Compare(state.Sessions[b].Expires)
		}))
	}
	given := issued{key: e.iamID(temporaryKey), secret: e.nextID("emulated-") + e.nextID(""), token: e.nextID("session-"), expires: now.Add(valid)}
	state.Sessions[given.key] = Session{Role: role, Name: session, Expires: given.expires}
	return given
}
