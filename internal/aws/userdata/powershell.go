package userdata

import (
	"errors"
	"regexp"
	"strings"
)

// powerShell is one PowerShell block: the user's text, then the call of the bootstrap script of the image.
func (in Input) powerShell() (string, error) {
	flags, err := in.flags()
	if err := errors.Join(err, plainText("cluster-dns", in.dns())); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if user := strings.TrimSpace(withoutTags(in.User)); user != "" {
		b.WriteString(user + "\n")
	}
	b.WriteString("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n")
	b.WriteString("& $EKSBootstrapScriptFile -EKSClusterName " + powershellQuote(in.Cluster) + " -APIServerEndpoint " + powershellQuote(in.Endpoint) +
		" -Base64ClusterCA " + powershellQuote(in.CABundle) + " -KubeletExtraArgs " + powershellQuote(flags))
	if dns := in.dns(); dns != "" {
		b.WriteString(" -DNSClusterIP " + powershellQuote(dns))
	}
	b.WriteString("\n</powershell>\n")
	return b.String(), nil
}

// withoutTags takes the tags of blocks out of a user's text: it becomes part of our block, and an end
// tag in it would cut the generated part off.
func withoutTags(text string) string {
	tags := regexp.MustCompile(`(?i)</?powershell>`)
	for tags.MatchString(text) { // what is left may form a tag again
		text = tags.ReplaceAllString(text, "")
	}
	return text
}

func powershellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
