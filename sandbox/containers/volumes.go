package containers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// accountMount is where a container finds the token of its service account.
const accountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// mountVolumes makes the folders of the volumes that the container mounts, with their files. Volumes with files of other places
// are empty folders.
func (s *setup) mountVolumes(ctx context.Context) error {
	s.mounts = map[string]string{}
	for _, m := range s.container.VolumeMounts {
		dir := s.volumeDir(m.Name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		s.mounts[m.MountPath] = filepath.Join(dir, m.SubPath)
		at := slices.IndexFunc(s.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			continue
		}
		if err := s.fillVolume(ctx, dir, &s.pod.Spec.Volumes[at]); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", m.Name, err)
		}
	}
	return nil
}

func (s *setup) fillVolume(ctx context.Context, dir string, v *corev1.Volume) error {
	switch {
	case v.ConfigMap != nil:
		data, err := s.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		return writeAll(dir, data, v.ConfigMap.Items, err)
	case v.Secret != nil:
		data, err := s.secretData(ctx, v.Secret.SecretName, v.Secret.Optional)
		return writeAll(dir, data, v.Secret.Items, err)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if err := s.projectSource(ctx, dir, source); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *setup) projectSource(ctx context.Context, dir string, source corev1.VolumeProjection) error {
	switch {
	case source.ServiceAccountToken != nil:
		t := &token{setup: s, request: source.ServiceAccountToken, file: filepath.Join(dir, source.ServiceAccountToken.Path)}
		s.tokens = append(s.tokens, t)
		return t.write(ctx)
	case source.ConfigMap != nil:
		data, err := s.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Optional)
		return writeAll(dir, data, source.ConfigMap.Items, err)
	case source.Secret != nil:
		data, err := s.secretData(ctx, source.Secret.Name, source.Secret.Optional)
		return writeAll(dir, data, source.Secret.Items, err)
	case source.DownwardAPI != nil:
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef == nil {
				continue
			}
			value, err := s.downwardField(item.FieldRef.FieldPath)
			if err != nil {
				return err
			}
			if err := writeAll(dir, map[string]string{item.Path: value}, nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeAll writes the keys of an object as files: all of them under their own names, or those that items name.
func writeAll(dir string, data map[string]string, items []corev1.KeyToPath, err error) error {
	if err != nil {
		return err
	}
	names := map[string]string{}
	for key := range data {
		names[key] = key
	}
	if len(items) > 0 {
		clear(names)
		for _, item := range items {
			names[item.Key] = item.Path
		}
	}
	for key, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(data[key]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// token is a file with a token of the pod's service account.
type token struct {
	setup   *setup
	request *corev1.ServiceAccountTokenProjection
	file    string
	expires time.Time
}

// write requests a token that is bound to the pod, and replaces the file as a whole.
func (t *token) write(ctx context.Context) error {
	p := t.setup.pod
	spec := authenticationv1.TokenRequestSpec{
		ExpirationSeconds: t.request.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}
	if t.request.Audience != "" {
		spec.Audiences = []string{t.request.Audience}
	}
	given, err := t.setup.runtime.Client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	t.expires = given.Status.ExpirationTimestamp.Time
	if err := os.MkdirAll(filepath.Dir(t.file), 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(t.file+".part", []byte(given.Status.Token), 0o600); err != nil {
		return err
	}
	return os.Rename(t.file+".part", t.file)
}

// renewToken writes the file anew when a fifth of the time of its token is left, as a kubelet does.
func (t *token) renewToken(ctx context.Context) {
	const retry = 10 * time.Second
	wait := time.Until(t.expires) * 4 / 5
	for {
		timer := time.NewTimer(max(wait, retry))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = retry
		if t.write(ctx) == nil { // the pod may just go; else the old one holds for some time
			wait = time.Until(t.expires) * 4 / 5
		}
	}
}

// kubeconfig stands for what a program finds in a pod: the address of the API server in its environment and, mounted, the
// token of its service account. Empty if no token is mounted.
func (s *setup) kubeconfig() (string, error) {
	dir, mounted := s.mounts[accountMount]
	if !mounted {
		return "", nil
	}
	return filepath.Join(s.dir, "kubeconfig"), WriteKubeconfig(filepath.Join(s.dir, "kubeconfig"), s.runtime.Config.Host, s.runtime.Config.CAData, filepath.Join(dir, "token"))
}

// WriteKubeconfig writes a kubeconfig for clients that use the token in a file.
func WriteKubeconfig(file, host string, authority []byte, tokenFile string) error {
	const name = "sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: host, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}
