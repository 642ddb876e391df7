package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// charts is what the helm program is run with.
type charts struct{ cluster object }

type helmProvider struct{}

func newHelm() provider.Provider { return helmProvider{} }

func (helmProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "helm"
}

func (helmProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	cluster := map[string]schema.Attribute{}
	for _, name := range []string{"host", "cluster_ca_certificate", "token", "config_path", "config_context", "client_certificate", "client_key"} {
		cluster[name] = schema.StringAttribute{Optional: true}
	}
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{"kubernetes": schema.SingleNestedAttribute{Optional: true, Attributes: cluster}}}
}

func (helmProvider) Configure(_ context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	o, err := read(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Configuration of the provider", err.Error())
		return
	}
	cluster, _ := o["kubernetes"].(object)
	resp.ResourceData = configured[*charts]{client: &charts{cluster: withoutUnknown(cluster)}}
}

func (helmProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (helmProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &managed[*charts]{kind: releaseKind()} }}
}

func releaseKind() kind[*charts] {
	fields := map[string]field{
		"name": forcingReplacement(requiredField(text)), "namespace": forcingReplacement(withDefault("default")), "chart": requiredField(text), "repository": optionalField(text), "version": {optional: true, computed: true, changes: true},
		"values": optionalField(texts), "timeout": withDefault(int64(300)), "description": optionalField(text), "status": {changes: true}, "manifest": {changes: true},
	}
	for _, name := range []string{"create_namespace", "skip_crds", "atomic", "cleanup_on_fail", "wait_for_jobs", "dependency_update", "force_update", "reset_values", "reuse_values"} {
		fields[name] = withDefault(false)
	}
	fields["wait"] = withDefault(true)
	return kind[*charts]{
		name: "helm_release", fields: fields,
		create: func(ctx context.Context, c *charts, o object) error { return c.installRelease(ctx, o, "install") },
		update: func(ctx context.Context, c *charts, _, o object) error { return c.installRelease(ctx, o, "upgrade") },
		read:   readRelease,
		remove: func(ctx context.Context, c *charts, o object) error {
			_, err := c.run(ctx, "uninstall", o.stringValue("name"), "--namespace", o.stringValue("namespace"), "--wait", "--timeout", timeoutText(o))
			return err
		},
	}
}

func timeoutText(o object) string { return strconv.FormatInt(o.intValue("timeout"), 10) + "s" }

// installRelease installs or upgrades. A release that failed is there, and is to be removed.
func (c *charts) installRelease(ctx context.Context, o object, command string) error {
	args := []string{command, o.stringValue("name"), o.stringValue("chart"), "--namespace", o.stringValue("namespace"), "--timeout", timeoutText(o)}
	for flag, argument := range map[string]string{"--repo": "repository", "--version": "version", "--description": "description"} {
		if o.stringValue(argument) != "" && !(argument == "repository" && strings.HasPrefix(o.stringValue(argument), "oci://")) {
			args = append(args, flag, o.stringValue(argument))
		}
	}
	if repository := o.stringValue("repository"); strings.HasPrefix(repository, "oci://") {
		args[2] = strings.TrimSuffix(repository, "/") + "/" + o.stringValue("chart")
	}
	for flag, argument := range map[string]string{
		"--create-namespace": "create_namespace", "--skip-crds": "skip_crds", "--atomic": "atomic", "--wait": "wait", "--wait-for-jobs": "wait_for_jobs", "--dependency-update": "dependency_update",
	} {
		if o.boolValue(argument) && !(argument == "create_namespace" && command == "upgrade") {
			args = append(args, flag)
		}
	}
	dir, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, values := range o.stringValues("values") {
		name := filepath.Join(dir, strconv.Itoa(i)+".yaml")
		if err := os.WriteFile(name, []byte(values), 0o600); err != nil {
			return err
		}
		args = append(args, "--values", name)
	}
	_, failed := c.run(ctx, args...)
	if failed == nil || readRelease(ctx, c, o) == nil {
		o["id"] = o.stringValue("name")
	}
	return failed
}

func readRelease(ctx context.Context, c *charts, o object) error {
	out, err := c.run(ctx, "status", o.stringValue("name"), "--namespace", o.stringValue("namespace"), "--output", "json")
	if err != nil {
		return err
	}
	var found struct {
		Info     struct{ Status string }
		Manifest string
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	out, err = c.run(ctx, "get", "metadata", o.stringValue("name"), "--namespace", o.stringValue("namespace"), "--output", "json")
	if err != nil {
		return err
	}
	var chart struct{ Version string }
	if err := json.Unmarshal(out, &chart); err != nil {
		return err
	}
	o["status"], o["manifest"], o["version"] = found.Info.Status, found.Manifest, chart.Version
	return nil
}

// run runs the helm program. It is not of the user's terminal: it finishes what it began when the user interrupts.
func (c *charts) run(ctx context.Context, args ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config, err := c.kubeconfig(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "helm", append(args, "--kubeconfig", config)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if strings.Contains(stderr.String(), "release: not found") {
			return nil, errGone
		}
		return nil, fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// kubeconfig writes what leads to the cluster of the provider's configuration.
func (c *charts) kubeconfig(dir string) (string, error) {
	if path := c.cluster.stringValue("config_path"); path != "" {
		return path, nil
	}
	if c.cluster.stringValue("host") == "" {
		return "", errors.New("the provider does not know the cluster yet: set host in kubernetes")
	}
	base := filepath.Join(dir, "kubeconfig")
	files := map[string]string{"ca": c.cluster.stringValue("cluster_ca_certificate"), "cert": c.cluster.stringValue("client_certificate"), "key": c.cluster.stringValue("client_key")}
	for name, content := range files {
		if err := os.WriteFile(base+"."+name, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	type object = map[string]any
	user := object{"token": c.cluster.stringValue("token")}
	if files["cert"] != "" {
		user = object{"client-certificate": base + ".cert", "client-key": base + ".key"}
	}
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []object{{"name": "it", "cluster": object{"server": c.cluster.stringValue("host"), "certificate-authority": base + ".ca"}}},
		"users":    []object{{"name": "it", "user": user}},
		"contexts": []object{{"name": "it", "context": object{"cluster": "it", "user": "it"}}},
	})
	if err != nil {
		return "", err
	}
	return base, os.WriteFile(base, text, 0o600)
}
