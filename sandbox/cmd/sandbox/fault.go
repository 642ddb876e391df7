package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

type faultFlags struct {
	dir      string
	endpoint string
	end      bool
	show     bool
}

func newFault() *cobra.Command {
	flags := faultFlags{}
	cmd := &cobra.Command{
		Use:   "fault WHAT [key=value ...]",
		Short: "Make something go wrong in a running sandbox",
		Long: "Sends key=value pairs to the control API of a running sandbox. Dots make nested keys, commas lists;\n" +
			"lengths of time are written like 90s.\n\n" +
			"  ice            no capacity: capacityType= instanceType= zone= [remaining= ttl= code= message=]\n" +
			"  quota          limits of the account\n" +
			"  faults         a call goes wrong: action=ec2:CreateFleet [code= count= latency= drop=before|after truncate=true]\n" +
			"  throttle       profile=realistic | off, or calls per second by action: ec2:CreateFleet.rate= ec2:CreateFleet.burst=\n" +
			"  permissions    a right is taken away, whatever policies say: action=ec2:CreateFleet [key= role= resources= message=]\n" +
			"  catalogue      an instance type: name= [like= vcpu= memoryMiB= onDemandPrice= zones=]; catalogue/m5.large --end retires it\n" +
			"  lag            eventual consistency: instances= tags= profiles= templates=\n" +
			"  interrupt      spot interruption: instance= or selector.nodepool= selector.type= selector.zone= [notice=]\n" +
			"  rebalance, health, stop, kill, status-check, reservation-interrupt   the same way\n" +
			"  message        a message in the queue as it is: body=\n" +
			"  nodes          name= [selector.type= selector.nodepool= ...] and of these:\n" +
			"                 neverJoin=true joinLate= joinTwice=true rejoin=true providerIDLate= csiNodeLate= neverReady=true flap=\n" +
			"                 memoryLoss= without= zero= conditions.KernelReady=False noUnregisteredTaint=true startupTaintsLate=\n" +
			"                 detachLate= dead=true\n" +
			"  kube           the API server, through proxy.kubeconfig: verb= resource= status= | latency= | drop=true | cutAfter=\n" +
			"  time           the emulated clock: speed= | advance=",
		Example: "  # no spot m5.large in one zone for five minutes\n  sandbox fault ice capacityType=spot instanceType=m5.large zone=eu-west-1a ttl=5m\n\n" +
			"  # the next two launches are throttled\n  sandbox fault faults action=ec2:CreateFleet code=RequestLimitExceeded count=2\n\n" +
			"  # no launch is permitted until the fault ends\n  sandbox fault permissions action=ec2:CreateFleet\n  sandbox fault permissions --end\n\n" +
			"  # nodes of a pool never join, until it is ended\n  sandbox fault nodes name=stuck selector.nodepool=default neverJoin=true\n  sandbox fault nodes --end name=stuck",
		Args: cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return markFailures(func(ctx context.Context, out io.Writer) error { return sendFault(ctx, flags, args, out) })(cmd, nil)
	}
	cmd.Flags().StringVar(&flags.dir, "dir", "", "folder of the sandbox, as given to up")
	cmd.Flags().StringVar(&flags.endpoint, "endpoint", os.Getenv("AWS_ENDPOINT_URL"), "address of the emulated AWS; default from --dir or AWS_ENDPOINT_URL")
	cmd.Flags().BoolVar(&flags.end, "end", false, "end the fault instead of starting it")
	cmd.Flags().BoolVar(&flags.show, "show", false, "show what is in force")
	return cmd
}

func sendFault(ctx context.Context, flags faultFlags, args []string, out io.Writer) error {
	endpoint, err := controlEndpoint(flags)
	if err != nil {
		return err
	}
	body, err := pairsToJSON(args[1:])
	if err != nil {
		return err
	}
	method := http.MethodPost
	switch {
	case flags.show:
		method = http.MethodGet
	case flags.end:
		method = http.MethodDelete
	case args[0] == "lag" || args[0] == "quota" || args[0] == "time" || args[0] == "throttle" || args[0] == "timing":
		method = http.MethodPut
	}
	if len(args) == 1 {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, endpoint+"/_dovetail/"+args[0], bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no sandbox responds at %s: %w", endpoint, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", args[0], strings.TrimSpace(string(text)))
	}
	_, err = out.Write(text)
	return err
}

// controlEndpoint finds the emulated AWS of a folder.
func controlEndpoint(flags faultFlags) (string, error) {
	if flags.dir == "" {
		if flags.endpoint == "" {
			return "", fmt.Errorf("which sandbox? name its folder with --dir, or source its aws.env")
		}
		return strings.TrimSuffix(flags.endpoint, "/"), nil
	}
	text, err := os.ReadFile(filepath.Join(flags.dir, "aws.env"))
	if err != nil {
		return "", fmt.Errorf("%w; is this the folder of a sandbox that is up?", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "export AWS_ENDPOINT_URL="); found {
			return strings.Trim(value, "'"), nil
		}
	}
	return "", fmt.Errorf("%s names no endpoint", filepath.Join(flags.dir, "aws.env"))
}

// pairsToJSON turns a.b=c into {"a":{"b":"c"}}. Whole numbers, decimals, true and false become JSON ones;
// commas make lists.
func pairsToJSON(args []string) ([]byte, error) {
	root := map[string]any{}
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not key=value", arg)
		}
		node, path := root, strings.Split(name, ".")
		for _, step := range path[:len(path)-1] {
			below, isMap := node[step].(map[string]any)
			if !isMap {
				below = map[string]any{}
				node[step] = below
			}
			node = below
		}
		last := path[len(path)-1]
		node[last] = jsonScalar(value)
		if _, isList := node[last].([]any); !isList && slices.Contains([]string{"without", "zero", "zones"}, last) {
			node[last] = []any{node[last]} // lists also of one
		}
	}
	return json.Marshal(root)
}

func jsonScalar(text string) any {
	if strings.Contains(text, ",") && !strings.ContainsAny(text, "{ ") {
		var list []any
		for part := range strings.SplitSeq(text, ",") {
			list = append(list, jsonScalar(part))
		}
		return list
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return text
}
