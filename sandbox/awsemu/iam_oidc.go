package awsemu

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// OIDCProvider lets the tokens of an issuer into the account: without one, no role can be assumed with them.
type OIDCProvider struct {
	ClientIDs   []string          `json:"clientIDs"` // audiences of tokens
	Thumbprints []string          `json:"thumbprints,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Created     time.Time         `json:"created"`
}

// Quotas of a provider.
const (
	maxClientIDs   = 100
	maxThumbprints = 5
)

func (e *Emulator) registerOIDC() {
	e.register(wire.IAM, "GetOpenIDConnectProvider", e.getOIDCProvider)
	e.register(wire.IAM, "ListOpenIDConnectProviders", e.listOIDCProviders)
	e.register(wire.IAM, "ListOpenIDConnectProviderTags", e.listOIDCProviderTags)
	for action, run := range map[string]func(*call) (any, error){
		"CreateOpenIDConnectProvider": e.createOIDCProvider, "DeleteOpenIDConnectProvider": e.deleteOIDCProvider,
		"TagOpenIDConnectProvider": e.tagOIDCProvider, "UntagOpenIDConnectProvider": e.untagOIDCProvider,
		"AddClientIDToOpenIDConnectProvider": e.addClientID, "RemoveClientIDFromOpenIDConnectProvider": e.removeClientID,
		"UpdateOpenIDConnectProviderThumbprint": e.updateThumbprint,
	} {
		e.registerMutating(wire.IAM, action, run)
	}
}

// oidcARN is the ARN of the provider of an issuer, with or without https://.
func (e *Emulator) oidcARN(issuer string) string {
	return e.accountARN("iam", "oidc-provider/"+strings.TrimPrefix(issuer, "https://"))
}

// findOIDC finds the provider that a call names.
func (e *Emulator) findOIDC(c *call) (arn string, p OIDCProvider, err error) {
	arn = c.Form.String("OpenIDConnectProviderArn")
	p, found := e.iamState().Providers[arn]
	if !found {
		return arn, p, wire.Errorf("NoSuchEntity", "OpenIDConnect Provider not found for arn %s", arn)
	}
	return arn, p, nil
}

func (e *Emulator) createOIDCProvider(c *call) (any, error) {
	issuer, ids, prints := c.Form.String("Url"), c.Form.Strings("ClientIDList"), c.Form.Strings("ThumbprintList")
	rest, secure := strings.CutPrefix(issuer, "https://")
	if !secure || rest == "" || strings.ContainsAny(rest, "?# ") || strings.HasSuffix(rest, "/") {
		return nil, wire.Errorf("ValidationError", "Invalid Open ID Connect Provider URL")
	}
	if len(ids) > maxClientIDs || len(prints) > maxThumbprints {
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: %d or ThumbprintsPerOpenIdConnectProvider: %d", maxClientIDs, maxThumbprints)
	}
	if err := validThumbprints(prints); err != nil {
		return nil, err
	}
	tags, err := tagsOf(c, nil)
	if err != nil {
		return nil, err
	}
	arn := e.oidcARN(issuer)
	if _, found := e.iamState().Providers[arn]; found {
		return nil, wire.Errorf("EntityAlreadyExists", "Provider with url %s already exists.", issuer)
	}
	e.iamState().Providers[arn] = OIDCProvider{ClientIDs: ids, Thumbprints: prints, Tags: tags, Created: c.now}
	return struct {
		OpenIDConnectProviderArn string
		Tags                     members[tagXML]
	}{arn, renderTags(tags)}, nil
}

func validThumbprints(prints []string) error {
	for _, print := range prints {
		if len(print) != 40 {
			return wire.Errorf("ValidationError", "1 validation error detected: Value '%s' at 'thumbprintList' failed to satisfy constraint: Member must have length 40", print)
		}
	}
	return nil
}

func (e *Emulator) getOIDCProvider(c *call) (any, error) {
	arn, p, err := e.findOIDC(c)
	if err != nil {
		return nil, err
	}
	_, host, _ := strings.Cut(arn, ":oidc-provider/")
	return struct {
		URL            string `xml:"Url"`
		CreateDate     string
		ClientIDList   members[string]
		ThumbprintList members[string]
		Tags           members[tagXML]
	}{host, wire.Time(p.Created), members[string]{p.ClientIDs}, members[string]{p.Thumbprints}, renderTags(p.Tags)}, nil
}

func (e *Emulator) listOIDCProviders(*call) (any, error) {
	type entry struct{ Arn string }
	var out struct{ OpenIDConnectProviderList members[entry] }
	for _, arn := range slices.Sorted(maps.Keys(e.iamState().Providers)) {
		out.OpenIDConnectProviderList.Member = append(out.OpenIDConnectProviderList.Member, entry{arn})
	}
	return out, nil
}

// deleteOIDCProvider succeeds for one that does not exist, as IAM does.
func (e *Emulator) deleteOIDCProvider(c *call) (any, error) {
	delete(e.iamState().Providers, c.Form.String("OpenIDConnectProviderArn"))
	return nil, nil
}

// changeOIDC changes the provider that a call names.
func (e *Emulator) changeOIDC(c *call, change func(*OIDCProvider) error) (any, error) {
	arn, p, err := e.findOIDC(c)
	if err != nil {
		return nil, err
	}
	p.ClientIDs, p.Tags = slices.Clone(p.ClientIDs), maps.Clone(p.Tags)
	if err := change(&p); err != nil {
		return nil, err
	}
	e.iamState().Providers[arn] = p
	return nil, nil
}

func (e *Emulator) tagOIDCProvider(c *call) (any, error) {
	return e.changeOIDC(c, func(p *OIDCProvider) (err error) {
		p.Tags, err = tagsOf(c, p.Tags)
		return err
	})
}

func (e *Emulator) untagOIDCProvider(c *call) (any, error) {
	return e.changeOIDC(c, func(p *OIDCProvider) error {
		for _, key := range c.Form.Strings("TagKeys") {
			delete(p.Tags, key)
		}
		return nil
	})
}

func (e *Emulator) listOIDCProviderTags(c *call) (any, error) {
	_, p, err := e.findOIDC(c)
	if err != nil {
		return nil, err
	}
	return tagList(p.Tags), nil
}

func (e *Emulator) addClientID(c *call) (any, error) {
	return e.changeOIDC(c, func(p *OIDCProvider) error {
		if id := c.Form.String("ClientID"); !slices.Contains(p.ClientIDs, id) {
			p.ClientIDs = append(p.ClientIDs, id)
		}
		return nil
	})
}

func (e *Emulator) removeClientID(c *call) (any, error) {
	return e.changeOIDC(c, func(p *OIDCProvider) error {
		p.ClientIDs = slices.DeleteFunc(p.ClientIDs, func(id string) bool { return id == c.Form.String("ClientID") })
		return nil
	})
}

func (e *Emulator) updateThumbprint(c *call) (any, error) {
	return e.changeOIDC(c, func(p *OIDCProvider) error {
		p.Thumbprints = c.Form.Strings("ThumbprintList")
		return validThumbprints(p.Thumbprints)
	})
}
