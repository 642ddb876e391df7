// Command dovetail is the autoscaler and its tools in one binary.
package main

import (
	"os"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], cli.Streams{Name: os.Args[0], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv}))
}
