// Package rights knows what the controller may do in Kubernetes: each right of the chart's roles, what it is for, and what
// users see who do not grant it. The page docs/reference/rbac.md and the warnings of the controller come from here; a test
// compares it with the chart, and another takes each right away on a real control plane. Start reading at All and Read.
package rights
