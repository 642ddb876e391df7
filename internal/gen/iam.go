package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dovetail-sh/dovetail/iam"
)

// modulePolicies is where the Terraform module has its copy, so that the module works when it is copied alone.
func modulePolicies() string { return filepath.Join("terraform", "modules", "karpenter", "policies") }

// moduleFiles are the documents of iam for the Terraform module.
func moduleFiles() []file {
	var files []file
	for _, d := range iam.All() {
		files = append(files, file{filepath.Join(modulePolicies(), filepath.FromSlash(strings.TrimPrefix(d.File, "policies/"))), []byte(d.Text)})
	}
	return append(files, file{filepath.Join(modulePolicies(), "managed-policies.txt"), []byte(strings.Join(iam.ManagedPolicies(), "\n") + "\n")})
}

// iamPage shows the policies of an installation and what each action is for.
func iamPage() file {
	var b strings.Builder
	b.WriteString(generatedNote + "# IAM\n\n" +
		"What an installation on EKS may do in AWS. The documents are files in [`iam/`](../../iam) of the repository; the setup script, the Terraform module and the tests use the same ones. " +
		"Placeholders: `" + strings.Join(iam.Placeholders(), "`, `") + "`. The documents hold in the partitions aws, aws-cn and aws-us-gov.\n\n" +
		"## What the controller needs each action for\n\n| Action | For | Without it |\n|---|---|---|\n")
	for _, u := range iam.Uses() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", u.Action, oneLine(u.For), oneLine(u.Without))
	}
	b.WriteString("\nA refusal names the action in the text of the condition, event or log line. Karpenter's policies do not have `ec2:RebootInstances`; everything else is the same, " +
		"so that a role that was made for Karpenter works.\n\n" +
		"## The controller's role\n\nSix managed policies, each with `-${cluster_name}` at the end of its name. " +
		"What is created must carry the tags of the cluster, and only what carries them may be changed or ended.\n")
	for _, d := range iam.Controller() {
		section(&b, d)
	}
	b.WriteString("\n### Trust with EKS Pod Identity\n\n" + block(iam.PodIdentityTrust()) + "\n### Trust with IAM roles for service accounts\n\n" + block(iam.IRSATrust()) +
		"\n## The nodes' role\n\nManaged policies of AWS: `" + strings.Join(iam.ManagedPolicies(), "`, `") + "`.\n\n### Trust\n\n" + block(iam.NodeTrust()) +
		"\n## The interruption queue\n\nEventBridge may write to it, and no client may use it without TLS.\n\n" + block(iam.Queue()) +
		"\n## Events that go to the queue\n\nOne rule each, with the queue as its target.\n")
	for _, d := range iam.EventRules() {
		section(&b, d)
	}
	return file{filepath.Join("docs", "reference", "iam.md"), []byte(b.String())}
}

func section(b *strings.Builder, d iam.Document) {
	fmt.Fprintf(b, "\n### %s\n\n%s", d.Name, block(d))
}

func block(d iam.Document) string {
	return "[`iam/" + d.File + "`](../../iam/" + d.File + ")\n\n```json\n" + d.Text + "```\n"
}
