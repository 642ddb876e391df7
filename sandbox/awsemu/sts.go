package awsemu

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Session is who a temporary access key acts as.
type Session struct {
	Role    string    `json:"role"`
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// maxSessions bounds the sessions that are kept; a client asks for one per hour.
const maxSessions = 1000

// stsAudience is whom a token for AssumeRoleWithWebIdentity must be meant for.
const stsAudience = "sts.amazonaws.com"

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
	if session, found := e.iam().Sessions[c.Key]; found {
		out.Arn = e.callerARN(c.Key)
		out.UserId = e.iam().Roles[session.Role].ID + ":" + session.Name
		return out, nil
	}
	out.Arn, out.UserId = e.callerARN(c.Key), c.Key
	return out, nil
}

func (e *Emulator) assumeRole(c *call) (any, error) {
	if c.Key == "" {
		return nil, &wire.Error{Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token", Status: 403}
	}
	return e.assume(c, "sts:AssumeRole", webToken{})
}

func (e *Emulator) assumeRoleWithWebIdentity(c *call) (any, error) {
	raw := c.Form.String("WebIdentityToken")
	if raw == "" {
		return nil, missingMember("webIdentityToken")
	}
	token, err := readToken(raw)
	if err != nil {
		return nil, err
	}
	return e.assume(c, "sts:AssumeRoleWithWebIdentity", token)
}

func missingMember(name string) error {
	return wire.Errorf("ValidationError", "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", name)
}

// assume gives out credentials of a role. Which principal a role trusts is not looked at: every role
// that exists can be assumed.
func (e *Emulator) assume(c *call, action string, token webToken) (any, error) {
	arn, session := c.Form.String("RoleArn"), c.Form.String("RoleSessionName")
	if arn == "" {
		return nil, missingMember("roleArn")
	}
	if err := validName("roleSessionName", session, 64); err != nil {
		return nil, err
	}
	seconds := c.Form.Int("DurationSeconds", 3600)
	if seconds < 900 || seconds > 43200 {
		return nil, wire.Errorf("ValidationError", "1 validation error detected: Value '%d' at 'durationSeconds' failed to satisfy constraint: Member must be between 900 and 43200", seconds)
	}
	role, found := e.roleByARN(arn)
	if !found {
		return nil, wire.Errorf("AccessDenied", "Not authorized to perform %s", action)
	}
	given := e.issue(role.Name, session, time.Duration(seconds)*time.Second)
	return assumeResult{
		Credentials: credentialsXML{
			AccessKeyID: given.key, SecretAccessKey: given.secret, SessionToken: given.token, Expiration: given.expires.UTC().Format(time.RFC3339),
		},
		AssumedRoleUser:             assumedUserXML{AssumedRoleID: role.ID + ":" + session, Arn: e.arn("sts", "assumed-role/"+role.Name+"/"+session)},
		SubjectFromWebIdentityToken: token.Subject, Audience: token.audience(), Provider: token.Issuer,
	}, nil
}

// roleByARN finds the role of arn:aws:iam::<account>:role/<path>/<name>.
func (e *Emulator) roleByARN(arn string) (Role, bool) {
	role, found := e.iam().Roles[arn[strings.LastIndex(arn, "/")+1:]]
	return role, found && e.arn("iam", "role"+role.Path+role.Name) == arn
}

// issued is a set of temporary credentials.
type issued struct {
	key, secret, token string
	expires            time.Time
}

// issue makes credentials and remembers whose they are. They expire by the wall clock: clients compare
// that with the clock of their own host. The emulator must be locked.
func (e *Emulator) issue(role, session string, valid time.Duration) issued {
	state, now := e.iam(), e.clock.wall()
	if len(state.Sessions) >= maxSessions {
		for key, s := range state.Sessions {
			if s.Expires.Before(now) {
				delete(state.Sessions, key)
			}
		}
	}
	given := issued{key: e.iamID("ASIA"), secret: e.nextID("emulated-") + e.nextID(""), token: e.nextID("session-"), expires: now.Add(valid)}
	if len(state.Sessions) < maxSessions {
		state.Sessions[given.key] = Session{Role: role, Name: session, Expires: given.expires}
	}
	return given
}

// webToken is the part of a service account token that matters here.
type webToken struct {
	Issuer   string          `json:"iss"`
	Subject  string          `json:"sub"`
	Audience json.RawMessage `json:"aud"` // one text or a list of them
}

// readToken decodes a JWT. Its signature and its lifetime are not checked.
func readToken(raw string) (webToken, error) {
	var token webToken
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return token, wire.Errorf("InvalidIdentityToken", "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err == nil {
		err = json.Unmarshal(payload, &token)
	}
	if err != nil {
		return token, wire.Errorf("InvalidIdentityToken", "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	if !slices.Contains(token.audiences(), stsAudience) {
		return token, wire.Errorf("InvalidIdentityToken", "Incorrect token audience")
	}
	return token, nil
}

func (t webToken) audiences() []string {
	var one string
	if json.Unmarshal(t.Audience, &one) == nil {
		return []string{one}
	}
	var many []string
	if json.Unmarshal(t.Audience, &many) != nil {
		return nil
	}
	return many
}

func (t webToken) audience() string {
	if len(t.Audience) == 0 {
		return ""
	}
	return stsAudience
}
