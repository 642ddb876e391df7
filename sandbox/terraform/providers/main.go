package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

func main() {
	if err := serve(context.Background(), filepath.Base(os.Args[0])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, name string) error {
	providers := map[string]func() provider.Provider{
		"terraform-provider-aws": newAWS, "terraform-provider-helm": newHelm,
	}
	create := providers[name]
	if create == nil {
		return fmt.Errorf("no provider is called %s: link this program to terraform-provider-aws or terraform-provider-helm", name)
	}
	return providerserver.Serve(ctx, create, providerserver.ServeOpts{Address: "registry.opentofu.org/hashicorp/" + name[len("terraform-provider-"):]})
}
