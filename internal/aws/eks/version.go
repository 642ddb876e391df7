package eks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Minor versions of Kubernetes 1 that are tested.
const (
	oldestMinor = 26
	newestMinor = 37
)

// release is a version of Kubernetes; only the minor number distinguishes them.
type release struct{ major, minor int }

func (r release) text() string {
	if r == (release{}) {
		return ""
	}
	return strconv.Itoa(r.major) + "." + strconv.Itoa(r.minor)
}

func (r release) supported() bool {
	return r.major == 1 && r.minor >= oldestMinor && r.minor <= newestMinor
}

// parseRelease reads major and minor number. EKS and others append a plus sign to the minor number.
func parseRelease(major, minor string) (release, error) {
	x, err := strconv.Atoi(major)
	y, second := strconv.Atoi(strings.TrimRight(minor, "+"))
	if err := errors.Join(err, second); err != nil {
		return release{}, fmt.Errorf("version %q.%q: %w", major, minor, err)
	}
	if x < 1 || y < 0 {
		return release{}, fmt.Errorf("version %q.%q is not one of Kubernetes", major, minor)
	}
	return release{x, y}, nil
}

// Version is the version of the control plane: 34 and "1.34"; 0 and "" before it is known.
func (c *Cluster) Version() (minor int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release.minor, c.release.text()
}

// RefreshVersion requests the version again. If that fails the last one stays. A version that is not
// tested is reported once, and nothing stops.
func (c *Cluster) RefreshVersion(ctx context.Context) error {
	fresh, err := c.readVersion(ctx)
	if err != nil {
		return fmt.Errorf("kubernetes version: %w", err)
	}
	if complain := c.keepVersion(fresh); complain {
		err := fmt.Errorf("kubernetes %s is outside 1.%d to 1.%d", fresh.text(), oldestMinor, newestMinor)
		log.FromContext(ctx).Error(err, "this version of Kubernetes is not tested; upgrade the cluster or the controller", "version", fresh.text())
	}
	return nil
}

// keepVersion reports whether the version is one to complain about, once per change.
func (c *Cluster) keepVersion(fresh release) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release = fresh
	if fresh.supported() {
		c.unsupported = ""
		return false
	}
	known := c.unsupported == fresh.text()
	c.unsupported = fresh.text()
	return !known
}

// readVersion queries EKS where it runs the control plane, else the API server.
func (c *Cluster) readVersion(ctx context.Context) (release, error) {
	if c.options.Settings.EKSControlPlane {
		cluster, err := c.describe(ctx)
		if err != nil {
			return release{}, err
		}
		major, minor, _ := strings.Cut(text(cluster.Version), ".")
		return parseRelease(major, minor)
	}
	if c.options.Server == nil {
		return release{}, errors.New("there is no client for the API server")
	}
	info, err := c.options.Server.ServerVersion()
	if err != nil {
		return release{}, err
	}
	return parseRelease(info.Major, info.Minor)
}
