package embedded

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane/etcdlog"
)

// opened are the folders of the control planes of this process. The loggers of klog and of etcd's client are
// variables of the process, and a line does not say which control plane it is about, so each folder gets all.
var opened folders

type folders struct {
	mu   sync.Mutex
	list []*folder
}

// Write implements io.Writer for the loggers of the process. With no folder open, the words are those of
// goroutines without a waiting caller, and are dropped.
func (o *folders) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.list {
		_, err := f.log.Write(line)
		errs = append(errs, err)
	}
	return len(line), errors.Join(errs...)
}

// add sends the log of all components to a folder too. Some components end the process when they cannot work:
// while one is being stopped only their goroutine ends, else a message says where to read on.
func (o *folders) add(f *folder) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("set up logging: %w", err)
		}
	}
	o.mu.Lock()
	o.list = append(o.list, f)
	o.mu.Unlock()
	klog.SetOutput(o)
	etcdlog.To(o)
	klog.OsExit = o.exitComponent
	return nil
}

// remove ends logging to a folder.
func (o *folders) remove(f *folder) {
	klog.Flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = slices.DeleteFunc(o.list, func(other *folder) bool { return other == f })
}

// exitComponent is called by a component that gives up.
func (o *folders) exitComponent(code int) {
	o.mu.Lock()
	var logs []string
	stopping := false
	for _, f := range o.list {
		stopping = stopping || f.stopping.Load()
		logs = append(logs, f.logFile())
	}
	o.mu.Unlock()
	if stopping {
		runtime.Goexit()
	}
	fmt.Fprintf(os.Stderr, "a Kubernetes component gave up; the end of %s says why\n", strings.Join(logs, " and of "))
	os.Exit(code)
}

var _ io.Writer = (*folders)(nil)
