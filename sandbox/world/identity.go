package world

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// ControllerRole is the role of the controller in the emulated account, with the policies of the installation guide.
const ControllerRole = "KarpenterControllerRole-" + Cluster

// Variables by which the SDK gets credentials.
const (
	agentAddress   = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	agentTokenFile = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
	webTokenFile   = "AWS_WEB_IDENTITY_TOKEN_FILE"
	webRole        = "AWS_ROLE_ARN"
)

// roleAnnotation of a service account names the role of its pods (IRSA).
const roleAnnotation = "eks.amazonaws.com/role-arn"

// assignIdentity has a process act as the role of the controller in AWS: its service account is associated with the role, and
// the process gets a token and the address of the agent, as a pod does on EKS. It returns the variables.
func (w *World) assignIdentity(ctx context.Context, i Installation) ([]string, error) {
	w.AWS.Associate(i.Namespace, i.ServiceAccount, ControllerRole)
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return nil, err
	}
	given, err := client.CoreV1().ServiceAccounts(i.Namespace).CreateToken(ctx, i.ServiceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds)), Audiences: []string{awsemu.PodIdentityAudience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.dir, i.Namespace+"-"+i.ServiceAccount+".aws-token")
	if err := os.WriteFile(file, []byte(given.Status.Token), 0o600); err != nil {
		return nil, err
	}
	return []string{agentAddress + "=" + w.AWSEndpoint + awsemu.CredentialsPath, agentTokenFile + "=" + file}, nil
}

// podIdentity is the webhook that EKS has in every cluster: it puts into new pods what the SDK needs to get credentials,
// if their service account has an association with a role (EKS Pod Identity) or the annotation of one (IRSA).
type podIdentity struct {
	client   kubernetes.Interface
	account  *awsemu.Emulator
	endpoint string // of the emulated AWS
}

const webhookName = "pod-identity-webhook"

// startPodIdentity runs the webhook if pods of ours run as processes; pods that are simulated need no credentials. What an
// earlier run on the folder left is removed otherwise.
func (w *World) startPodIdentity(ctx context.Context, o Options) error {
	if o.Program == "" && len(o.Programs) == 0 {
		if err := w.Kube.Delete(ctx, w.webhookObject(1)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	port, serve, err := w.prepareWebhook(ctx)
	if err != nil {
		return err
	}
	serve(&podIdentity{client: client, account: w.AWS, endpoint: w.AWSEndpoint})
	_, err = w.Kube.Apply(ctx, w.webhookObject(port))
	return err
}

func (w *World) webhookObject(port int32) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": webhookName},
		"webhooks": []any{map[string]any{
			"name": "iam-for-pods.amazonaws.com", "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"url": fmt.Sprintf("https://localhost:%d/mutate", port), "caBundle": base64.StdEncoding.EncodeToString(w.ControlPlane.Config.CAData),
			},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"}}},
			"objectSelector": map[string]any{"matchExpressions": []any{
				map[string]any{"key": "eks.amazonaws.com/skip-pod-identity-webhook", "operator": "DoesNotExist"},
			}},
		}},
	}}
}

// ServeHTTP serves one review.
func (p *podIdentity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview", http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	patch, err := p.patch(r.Context(), review.Request)
	switch {
	case err != nil:
		response.Warnings = []string{webhookName + ": " + err.Error()}
	case patch != nil:
		response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server is gone; nothing to do about it
}

// patch is what a pod gets; nil if its service account has no role.
func (p *podIdentity) patch(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
		return nil, err
	}
	grant, err := p.identityOfAccount(ctx, r.Namespace, pod.Spec.ServiceAccountName)
	if err != nil || grant == nil {
		return nil, err
	}
	grant.injectIdentity(&pod.Spec)
	return json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": &pod.Spec}})
}

// grant is what pods of a service account get: variables, and a token in a volume.
type grant struct {
	volume, folder, file string
	audience             string
	variables            []corev1.EnvVar
}

// identityOfAccount finds out what a service account is given. An association wins over an annotation, as on EKS.
func (p *podIdentity) identityOfAccount(ctx context.Context, namespace, account string) (*grant, error) {
	if p.account.PodIdentity(namespace, account) {
		g := &grant{volume: "eks-pod-identity-token", folder: "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount", file: "eks-pod-identity-token", audience: awsemu.PodIdentityAudience}
		g.variables = []corev1.EnvVar{{Name: agentAddress, Value: p.endpoint + awsemu.CredentialsPath}, {Name: agentTokenFile, Value: g.folder + "/" + g.file}}
		return g, nil
	}
	found, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	role := found.Annotations[roleAnnotation]
	if role == "" {
		return nil, nil
	}
	g := &grant{volume: "aws-iam-token", folder: "/var/run/secrets/eks.amazonaws.com/serviceaccount", file: "token", audience: awsemu.IRSAAudience}
	g.variables = []corev1.EnvVar{{Name: webRole, Value: role}, {Name: webTokenFile, Value: g.folder + "/" + g.file}}
	return g, nil
}

// injectIdentity gives it to every container. Variables that a container has stay as they are.
func (g *grant) injectIdentity(spec *corev1.PodSpec) {
	const day = 24 * 60 * 60
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: g.volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: g.audience, ExpirationSeconds: new(int64(day)), Path: g.file}}},
	}}})
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for n := range list {
			c := &list[n]
			for _, v := range g.variables {
				if !hasVariable(c, v.Name) {
					c.Env = append(c.Env, v)
				}
			}
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: g.volume, MountPath: g.folder, ReadOnly: true})
		}
	}
}

func hasVariable(c *corev1.Container, name string) bool {
	for _, v := range c.Env {
		if v.Name == name {
			return true
		}
	}
	return false
}
