package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
)

// The kernel holds the path of a unix socket in 108 bytes (104 on macOS), with a zero at the end.
const maxSocketPath = 103

// folder is where one control plane keeps its state. It is locked while open. klog is one logger for the whole
// process and writes to the folder of every control plane that runs in it.
type folder struct {
	dir  string // absolute
	lock *os.File
	log  *os.File

	stopping atomic.Bool // a component that gives up now does so because it was stopped
}

func (f *folder) joinPath(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

func (f *folder) kubeconfig() string { return controlplane.KubeconfigFile(f.dir) }
func (f *folder) logFile() string    { return controlplane.LogFile(f.dir) }

// openFolder makes the folder and checks all that can be wrong with it before anything starts.
func openFolder(dir string) (*folder, error) {
	if dir == "" {
		return nil, errors.New("no folder given for the state of the control plane")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	if longest := controlplane.EtcdSocket(dir); len(longest) > maxSocketPath {
		return nil, fmt.Errorf("the path of folder %s is too long for the unix sockets in it: it may have %d bytes and has %d; choose a shorter one",
			dir, len(dir)-(len(longest)-maxSocketPath), len(dir))
	}
	if strings.ContainsAny(dir, "%?#,") {
		return nil, fmt.Errorf("the path of folder %s has one of the characters %%?#, which the address of a socket cannot hold; choose another one", dir)
	}
	// Sockets and keys are in folders of their own, which no other user may enter.
	for _, sub := range []string{f.joinPath("etcd"), f.joinPath("pki")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, unusableDirError(dir, err)
		}
		if err := os.Chmod(sub, 0o700); err != nil {
			return nil, unusableDirError(dir, err)
		}
	}
	if err := f.lockFolder(); err != nil {
		return nil, err
	}
	if err := f.checkRoom(); err != nil {
		_ = f.lock.Close()
		return nil, err
	}
	if f.log, err = os.OpenFile(f.logFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil {
		_ = f.lock.Close()
		return nil, unusableDirError(dir, err)
	}
	if err := opened.add(f); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func unusableDirError(dir string, err error) error {
	return fmt.Errorf("folder %s cannot be used: %w; choose one that you may write to", dir, err)
}

// checkRoom tries whether the disk has room for a start: etcd reserves two logs of 64 MB, and the rest is
// for its data and what the components say. Found out later, it would be one of them that gives up.
func (f *folder) checkRoom() error {
	const megabytes = 200
	probe, err := os.CreateTemp(f.dir, "room-")
	if err != nil {
		return unusableDirError(f.dir, err)
	}
	err = errors.Join(fileutil.Preallocate(probe, megabytes<<20, true), probe.Close(), os.Remove(probe.Name()))
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("folder %s has no room: %w; a sandbox begins with %d MB: free some, or choose another folder", f.dir, err, megabytes)
	case err != nil:
		return unusableDirError(f.dir, err)
	}
	return nil
}

// lockFolder takes a lock that the kernel releases when the process ends, however it ends.
func (f *folder) lockFolder() error {
	lock, err := os.OpenFile(f.joinPath("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return unusableDirError(f.dir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("folder %s belongs to a sandbox that still runs; stop that one, or choose another folder", f.dir)
		}
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	f.lock = lock
	return nil
}

// explainWithLog adds to an error where the log is, and its last errors: the folder may be a temporary one
// that is gone when the user reads this.
func (f *folder) explainWithLog(err error) error {
	const shown = 3
	text, readErr := os.ReadFile(f.logFile())
	if readErr != nil {
		return err
	}
	var errs []string
	for line := range strings.Lines(string(text)) {
		// klog begins with the level; etcd has it as its second column.
		if strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") || strings.Contains(line, "\terror\t") || strings.Contains(line, "\tfatal\t") {
			errs = append(errs, strings.TrimSpace(line))
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("%w; the log is %s", err, f.logFile())
	}
	last := errs[max(0, len(errs)-shown):]
	return fmt.Errorf("%w; the log is %s and its last errors are:\n  %s", err, f.logFile(), strings.Join(last, "\n  "))
}

func (f *folder) close() {
	opened.remove(f)
	_ = f.log.Close()
	_ = f.lock.Close()
}
