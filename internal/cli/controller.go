package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/dovetail-sh/dovetail/internal/app"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/version"
)

func newController(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller",
		Long: "Runs the controller against the cluster of the kubeconfig (KUBECONFIG, or the service account inside\n" +
			"a cluster) until it is stopped: it launches nodes for unschedulable pods, registers them, drains and\n" +
			"terminates them, and reacts to interruptions. Every flag can be given as the environment variable named in\n" +
			"brackets; the flag wins. AWS is found as by every AWS tool: region, endpoints and credentials come from\n" +
			"the environment, the web identity or pod identity of the service account, or the instance.",
		Example: "  # against a sandbox that runs none: its file aws.env sets KUBECONFIG, CLUSTER_NAME and where AWS is\n  sandbox up --dir DIR &\n  . DIR/aws.env\n  dovetail controller --disable-leader-election",
		Args:    noArgs,
	}
	loader := config.Bind(cmd.Flags(), drivers.Driver().Settings)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, kube, log, err := connect(s, loader)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return app.Run(ctx, drivers.Driver(), cfg, kube, log)
	}
	return cmd
}

// connect reads the settings, and finds the log and the cluster that they name.
func connect(s Streams, loader *config.Loader) (cfg config.Config, kube *rest.Config, log logr.Logger, err error) {
	cfg, warnings, err := loader.Load(s.LookupEnv)
	if err != nil {
		return cfg, nil, log, usageError{err}
	}
	log, err = app.Logger(string(cfg.Log.Level), cfg.Log.OutputPaths, cfg.Log.ErrorOutputPaths, version.Get().Commit)
	if err != nil {
		return cfg, nil, log, err
	}
	klog.SetLogger(log) // libraries log there; all lines have one form
	for _, w := range warnings {
		log.Error(nil, "setting deserves a look", "warning", w)
	}
	if kube, err = ctrl.GetConfig(); err != nil {
		return cfg, nil, log, noCluster(s.LookupEnv, err)
	}
	return cfg, kube, log, nil
}

// noCluster says which kubeconfig was looked for. The library would name an old variable instead.
func noCluster(env func(string) (string, bool), err error) error {
	if files, set := env("KUBECONFIG"); set && files != "" {
		for _, file := range filepath.SplitList(files) {
			if _, missing := os.Stat(file); missing == nil {
				return fmt.Errorf("no cluster: KUBECONFIG %s cannot be used: %w", files, err)
			}
		}
		return fmt.Errorf("no cluster: the file that KUBECONFIG names does not exist: %s", files)
	}
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("no cluster: set KUBECONFIG to a kubeconfig, or run inside a cluster with a service account")
	}
	return fmt.Errorf("no cluster: set KUBECONFIG to a kubeconfig, or run inside a cluster with a service account: %w", err)
}

// contextOf is the context of the call, which cobra leaves out if the caller gave none.
func contextOf(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
