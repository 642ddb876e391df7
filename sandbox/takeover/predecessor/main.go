// Command predecessor stands for the controller that ran in a cluster before Dovetail. It takes the lease of the two, says
// when it leads and when it has stopped, responds to probes, and does nothing else: what such a controller leaves on objects is
// made by the tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	go serveProbes()
	name := os.Getenv("HOSTNAME") + "_predecessor"
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: "karpenter-leader-election", Namespace: os.Getenv("SYSTEM_NAMESPACE")},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { fmt.Println(name, "leads"); <-ctx.Done() },
			OnStoppedLeading: func() { fmt.Println(name, "does not lead") },
		},
	})
	if ctx.Err() == nil {
		return errors.New("the lease is lost")
	}
	return nil // the stop was requested
}

func serveProbes() {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("HEALTH_PROBE_PORT"), Handler: ok, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
}
