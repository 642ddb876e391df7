package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Go's test cache knows a file that a test opened by its whole path, and so does the cache of golangci-lint. So the gate
// calls its programs in a link to the checkout that has the same path for every clone. One gate uses the link at a time;
// another one that runs meanwhile calls its programs in its own checkout, and tests only run more often there.

// A place is where programs are called.
type place struct {
	root string   // of the repository: the link, or the checkout itself
	lock *os.File // held while the link is ours
}

// stablePlace points the link in a folder to a checkout.
func stablePlace(folder, checkout string) (*place, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	p := &place{root: filepath.Join(folder, "checkout"), lock: lock}
	if err := p.pointLink(checkout); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// pointLink makes the link anew. A lock that another gate holds is not waited for.
func (p *place) pointLink(checkout string) error {
	if err := syscall.Flock(int(p.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another gate runs in %s: %w", p.root, err)
	}
	if err := os.Remove(p.root); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(checkout, p.root)
}

// release leaves the link to the next gate.
func (p *place) release() {
	if p.lock != nil {
		_ = p.lock.Close() // the lock ends with the file
	}
}

// findPlace returns where programs are called for a checkout. Without a link it is the checkout.
func findPlace(checkout string) *place {
	cache, err := os.UserCacheDir()
	if err != nil {
		return &place{root: checkout}
	}
	p, err := stablePlace(filepath.Join(cache, "dovetail", "gate"), checkout)
	if err != nil {
		return &place{root: checkout}
	}
	return p
}
