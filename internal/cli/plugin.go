package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// pluginName is the name of a file on PATH that kubectl runs as kubectl dovetail.
const pluginName = "kubectl-dovetail"

// callAsPlugin has usage, examples and errors name the commands as users of the plugin call them, if the binary was called
// as the plugin.
func callAsPlugin(root *cobra.Command, calledAs string) {
	if strings.TrimSuffix(filepath.Base(calledAs), ".exe") != pluginName {
		return
	}
	const display = "kubectl dovetail"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: display}
	called := regexp.MustCompile(`(^|[ \n])dovetail `)
	for _, cmd := range append(root.Commands(), root) {
		cmd.Example = called.ReplaceAllString(cmd.Example, "${1}"+display+" ")
	}
}

// completionScript is what kubectl runs to complete kubectl dovetail: an executable kubectl_complete-dovetail on PATH.
const completionScript = `#!/bin/sh
# Completion of kubectl dovetail. kubectl runs this file if it is executable, on PATH and called kubectl_complete-dovetail.
exec kubectl-dovetail __complete "$@"
`

// addCompletion adds the command completion, with kubectl beside the shells.
func addCompletion(root *cobra.Command, s Streams) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.AddCommand(&cobra.Command{
			Use:   "kubectl",
			Short: "Generate the autocompletion script for kubectl dovetail",
			Long: "Prints a script that completes kubectl dovetail, in every shell that kubectl completes in. Make the binary\n" +
				"reachable as kubectl-dovetail, and save the script beside it as kubectl_complete-dovetail.",
			Example: "  ln -s \"$(command -v dovetail)\" ~/bin/kubectl-dovetail\n" +
				"  dovetail completion kubectl > ~/bin/kubectl_complete-dovetail && chmod +x ~/bin/kubectl_complete-dovetail",
			Args:              noArgs,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(*cobra.Command, []string) error {
				_, err := fmt.Fprint(s.Out, completionScript)
				return err
			},
		})
	}
}
