package controlplane

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Rewrite changes an object where it is stored, past the API server and whatever it checks or stamps: so a
// test has an object that is older than itself, or one that an older schema let in. The key is that of the
// datastore, such as /registry/minions/NAME for a Node; custom resources are stored as JSON, others as
// protobuf.
func (cp *ControlPlane) Rewrite(ctx context.Context, key string, change func(stored []byte) ([]byte, error)) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix:" + EtcdSocket(cp.dir)}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("connect to the datastore: %w", err)
	}
	defer func() { _ = client.Close() }() // what it was for is done
	for {
		got, err := client.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", key, err)
		}
		if len(got.Kvs) == 0 {
			return fmt.Errorf("rewrite %s: there is no such key", key)
		}
		value, err := change(got.Kvs[0].Value)
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", key, err)
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)
		done, err := client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", key, err)
		}
		if done.Succeeded {
			return nil
		}
	}
}
