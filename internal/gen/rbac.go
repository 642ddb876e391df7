package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/rights"
)

// rbacPage shows what the controller may do in Kubernetes, and what each right is for.
func rbacPage() file {
	var b strings.Builder
	b.WriteString(generatedNote + "# RBAC\n\n" +
		"What an installation may do in Kubernetes, as the chart grants it. Tests run the controller with exactly these rights, and remove each of them to check what users see.\n\n" +
		"## How a missing right is reported\n\n" +
		"The log of the controller names the verb, the resource and its group, what does not work, and the rule to add:\n\n```text\n" +
		rights.Denial{Verb: "patch", Resource: "nodes"}.Warning() + "\n```\n\n" +
		"Without a right that nothing can be planned without, the controller does not become ready. Its probe says why, and it continues by itself once the rule is there:\n\n" +
		"```console\nkubectl get --raw /api/v1/namespaces/kube-system/pods/<pod>:8081/proxy/readyz/rights\n```\n\n" +
		"## Rights of the chart\n")
	role := rights.Role(-1)
	for _, r := range rights.All() {
		if r.Value != "" {
			continue
		}
		if r.Role != role {
			role = r.Role
			fmt.Fprintf(&b, "\n### %s\n\n| Group | Resource | Verbs | For | Without it |\n|---|---|---|---|---|\n", role)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", groupOf(r), resourceOf(r), strings.Join(r.Verbs, ", "), oneLine(r.For), oneLine(r.Without))
	}
	b.WriteString("\n## Rights that values of the chart grant\n\nKarpenter does not have them. They are part of the ClusterRole karpenter-core if the value is set.\n\n" +
		"| Value | Group | Resource | Verbs | For | Without it |\n|---|---|---|---|---|---|\n")
	for _, r := range rights.All() {
		if r.Value != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Value, groupOf(r), resourceOf(r), strings.Join(r.Verbs, ", "), oneLine(r.For), oneLine(r.Without))
		}
	}
	return file{filepath.Join("docs", "reference", "rbac.md"), []byte(b.String())}
}

func groupOf(r rights.Right) string {
	if r.Group == "" {
		return "core"
	}
	return "`" + r.Group + "`"
}

func resourceOf(r rights.Right) string {
	if r.Name == "" {
		return "`" + r.Resource + "`"
	}
	return "`" + r.Resource + "`, only `" + r.Name + "`"
}
