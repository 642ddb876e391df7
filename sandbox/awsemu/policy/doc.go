// Package policy reads policy documents of IAM and says what they allow: statements with Allow and Deny,
// NotAction and NotResource, wildcards, and the condition operators on texts, ARNs and booleans. An
// explicit Deny wins, and what no statement allows is denied.
//
// It knows no account, roles, clock or calls: what a call wants arrives as a Request. Policy variables,
// numbers, dates and addresses are not evaluated; a document that uses them is refused.
//
// Start reading at Parse and Evaluate.
package policy
