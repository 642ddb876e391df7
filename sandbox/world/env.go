package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Environment is what a shell needs to see to live in this world: kubectl, helm, aws. Who sources it may do everything.
func (w *World) Environment() []string {
	env := append(append(w.networkEnvironment(), w.clusterSettings()...),
		"AWS_ACCESS_KEY_ID=AKIASANDBOX", // of an administrator, like the user in the shell
		"AWS_SECRET_ACCESS_KEY=sandbox",
		"KUBECONFIG="+w.ControlPlane.Kubeconfig,
	)
	slices.Sort(env)
	return env
}

// clusterSettings are those of a controller of this cluster.
func (w *World) clusterSettings() []string {
	return []string{"CLUSTER_NAME=" + Cluster, "CLUSTER_ENDPOINT=" + w.ControlPlane.Config.Host, "INTERRUPTION_QUEUE=" + Queue}
}

// networkEnvironment is what a process finds in a real account without a setting: the endpoints of the services under their names, and
// its region. Credentials are another matter: see identify and podIdentity.
func (w *World) networkEnvironment() []string {
	env := []string{
		"AWS_ENDPOINT_URL=" + w.AWSEndpoint,
		"AWS_REGION=" + Region,
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_EC2_METADATA_DISABLED=true",
	}
	for _, service := range []string{"EC2", "IAM", "SQS", "SSM", "PRICING", "EKS", "STS", "ARC_ZONAL_SHIFT", "EVENTBRIDGE", "FIS"} {
		env = append(env, "AWS_ENDPOINT_URL_"+service+"="+w.AWSEndpoint)
	}
	return env
}

// writeEnv writes aws.env for shells, and a kubeconfig that goes through the proxy.
func (w *World) writeEnv() error {
	var b strings.Builder
	b.WriteString("# Point a shell at this sandbox: . " + filepath.Join(w.dir, "aws.env") + "\n")
	for _, line := range w.Environment() {
		name, value, _ := strings.Cut(line, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	w.EnvFile = filepath.Join(w.dir, "aws.env")
	if err := os.WriteFile(w.EnvFile, []byte(b.String()), 0o600); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[Cluster] = &clientcmdapi.Cluster{Server: w.ProxyEndpoint}
	config.Contexts[Cluster] = &clientcmdapi.Context{Cluster: Cluster}
	config.CurrentContext = Cluster
	return clientcmd.WriteToFile(*config, filepath.Join(w.dir, "proxy.kubeconfig"))
}
