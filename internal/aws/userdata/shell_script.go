package userdata

import (
	"errors"
	"strings"
)

// shellScript is an archive whose last part calls the bootstrap script of the EKS image, after the user's own scripts.
func (in Input) shellScript() (string, error) {
	var parts []part
	switch {
	case isArchive(in.User):
		var err error
		if parts, err = readArchive(in.User); err != nil {
			return "", err
		}
	case strings.TrimSpace(in.User) != "":
		parts = []part{newPart(typeShell, in.User)}
	}
	script, err := in.bootstrap()
	if err != nil {
		return "", err
	}
	return writeArchive(append(parts, newPart(typeShell, script))), nil
}

// bootstrap is the generated script. Arguments are separated from their values by a space: the script
// does not know "=".
func (in Input) bootstrap() (string, error) {
	flags, err := in.flags()
	if err := errors.Join(err, plainText("cluster-dns", in.dns())); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash -xe\n")
	b.WriteString("exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1\n")
	b.WriteString(in.Family.BootstrapScript + " " + shellQuote(in.Cluster) + " --apiserver-endpoint " + shellQuote(in.Endpoint) +
		" --b64-cluster-ca " + shellQuote(in.CABundle))
	if in.ipv6() {
		b.WriteString(" \\\n  --ip-family ipv6")
	}
	b.WriteString(" \\\n ")
	if in.dns() != "" {
		b.WriteString(" --dns-cluster-ip " + shellQuote(in.dns()))
	}
	b.WriteString(" --use-max-pods false")
	b.WriteString(" \\\n  --kubelet-extra-args " + shellQuote(flags))
	if in.RAID0 {
		b.WriteString(" \\\n  --local-disks raid0")
	}
	return b.String(), nil
}

// shellQuote makes one word of a text, whatever is in it.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
