package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/api/crds"
)

func newCRDs(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "crds",
		Short:   "Print the CustomResourceDefinitions",
		Long:    "Prints the CustomResourceDefinitions this build was made with, as YAML.",
		Example: "  dovetail crds | kubectl apply --server-side -f -",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := crds.All()
			if err != nil {
				return err
			}
			for _, crd := range all {
				if _, err := s.Out.Write(crd.YAML); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
