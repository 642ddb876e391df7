package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
)

// launchEtcd runs the datastore on unix sockets in a folder that only this user may enter, so it
// needs neither TLS nor ports.
func (cp *plane) launchEtcd(context.Context) error {
	socket := func(path string) []url.URL { return []url.URL{{Scheme: "unix", Path: path}} }
	clients, peers := socket(controlplane.EtcdSocket(cp.folder.dir)), socket(cp.folder.joinPath("etcd", "peer.sock"))
	broken := make(chan error, 1)
	config := embed.NewConfig()
	config.Dir = cp.folder.joinPath("etcd", "data")
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(cp.etcdLogger(broken))
	config.UnsafeNoFsync = true // a crash of the machine may lose the state; a crash of the process does not
	config.QuotaBackendBytes = 4 << 30
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	// In a goroutine, which stays behind when etcd gives up: see etcdLogger.
	started := make(chan error, 1)
	server := (*embed.Etcd)(nil)
	go func() {
		var err error
		server, err = embed.StartEtcd(config)
		started <- err
	}()
	select {
	case err := <-started:
		cp.etcd = server
		return err
	case err := <-broken:
		return fmt.Errorf("%w; if it stays so, remove %s and start from nothing", err, config.Dir)
	}
}

func (cp *plane) awaitEtcd(ctx context.Context) error {
	select {
	case <-cp.etcd.Server.ReadyNotify():
		return nil
	case err := <-cp.etcd.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// etcdLogger writes beside the other components. Where etcd would log its last words and then panic,
// in whatever goroutine, or end the process, the error is reported and only that goroutine ends.
func (cp *plane) etcdLogger(broken chan<- error) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.AddSync(cp.folder.log), zapcore.WarnLevel)
	hook := lastWords(func(err error) {
		cp.failStart(fmt.Errorf("etcd: %w", err))
		select {
		case broken <- err:
		default:
		}
	})
	return zap.New(core, zap.WithPanicHook(hook), zap.WithFatalHook(hook))
}

// lastWords is called by zap after it wrote an entry that is meant to be the last one.
type lastWords func(error)

// OnWrite implements zapcore.CheckWriteHook.
func (report lastWords) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	report(err)
	runtime.Goexit()
}
