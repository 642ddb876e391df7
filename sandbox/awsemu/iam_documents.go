package awsemu

import (
	"encoding/json"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Quotas of a real account: characters that are no white space of a managed policy and of all inline policies of a role,
// and managed policies of a role.
const (
	maxPolicySize  = 6144
	maxInlineSize  = 10240
	maxAttachments = 10
)

// validDocument refuses what IAM does, and what is not evaluated here: it must not pass for a policy that does nothing.
func validDocument(document string) error {
	if !json.Valid([]byte(document)) {
		return wire.Errorf("MalformedPolicyDocument", "Syntax errors in policy.")
	}
	if _, err := policy.Parse(policy.Identity, document); err != nil {
		return wire.Errorf("MalformedPolicyDocument", "%s", err.Error())
	}
	return nil
}

// validManaged is validDocument for a policy of the account.
func validManaged(document string) error {
	if sizeOf(document) > maxPolicySize {
		return wire.Errorf("LimitExceeded", "Cannot exceed quota for PolicySize: %d", maxPolicySize)
	}
	return validDocument(document)
}

// sizeOf counts as IAM does: without white space.
func sizeOf(document string) int { return len(strings.Join(strings.Fields(document), "")) }

// validInline refuses inline policies of a role that are too long together.
func validInline(role string, documents map[string]string) error {
	size := 0
	for _, text := range documents {
		size += sizeOf(text)
	}
	if size > maxInlineSize {
		return wire.Errorf("LimitExceeded", "Maximum policy size of %d bytes exceeded for role %s", maxInlineSize, role)
	}
	return nil
}
