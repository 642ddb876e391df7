package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Verdict is what the API server thinks of a token.
type Verdict int

// What it can think.
const (
	Unknown   Verdict = iota // no user has this token
	Forbidden                // its owner may not read the path
	Allowed
)

// reviewer queries the API server whether the owner of a token may get a path.
type reviewer interface {
	Review(ctx context.Context, token, path string) (Verdict, error)
}

const (
	allowedFor = time.Minute      // how long a positive response is valid
	deniedFor  = 10 * time.Second // how long a bad one is
	mostKnown  = 1000             // tokens
	patience   = 5 * time.Second
)

// Guard lets a request through when the API server says that its bearer token may get the path. No
// response is a denial.
type Guard struct {
	next   http.Handler
	review reviewer
	now    func() time.Time
	limits limits

	mu    sync.Mutex
	known map[[sha256.Size]byte]cachedVerdict
}

type cachedVerdict struct {
	verdict Verdict
	until   time.Time
}

// NewGuard puts a guard before a handler.
func NewGuard(next http.Handler, review reviewer, now func() time.Time) *Guard {
	return &Guard{next: next, review: review, now: now, known: map[[sha256.Size]byte]cachedVerdict{}}
}

// ServeHTTP responds with 401 without a valid token, 403 if its owner may not read, and 503 if
// that cannot be found out.
func (g *Guard) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, found := bearer(req.Header.Get("Authorization"))
	if !found {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token of this cluster is needed: curl -H \"Authorization: Bearer $(kubectl create token NAME)\"", http.StatusUnauthorized)
		return
	}
	from, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		from = req.RemoteAddr
	}
	verdict, err := g.reviewToken(req.Context(), token, from)
	switch {
	case err != nil:
		http.Error(w, "the API server could not review who may read this: "+err.Error(), http.StatusServiceUnavailable)
	case verdict == Allowed:
		g.next.ServeHTTP(w, req)
	case verdict == Forbidden:
		http.Error(w, "the owner of the token may not read this; it needs a ClusterRole with verb get on nonResourceURLs "+Path, http.StatusForbidden)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "the API server does not know the token, or it has expired", http.StatusUnauthorized)
	}
}

// bearer takes the token out of a header.
func bearer(header string) (token string, found bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// reviewToken returns the cached verdict, or requests one. Only a hash of the token is cached. Questions are counted
// for the address they come from, and for the token once it was good: addresses can be shared.
func (g *Guard) reviewToken(ctx context.Context, token, from string) (Verdict, error) {
	key := sha256.Sum256([]byte(token))
	now := g.now()
	g.mu.Lock()
	k, found := g.known[key]
	g.mu.Unlock()
	if found && now.Before(k.until) {
		return k.verdict, nil
	}
	caller, stranger := "address/"+from, k.verdict != Allowed
	if !stranger {
		caller = "token/" + string(key[:])
	}
	if !g.limits.allowCaller(caller, stranger, now) {
		return Unknown, errors.New("too many requests with tokens not seen before; try again in a second")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	verdict, err := g.review.Review(ctx, token, Path)
	if err != nil {
		return Unknown, err
	}
	k = cachedVerdict{verdict: verdict, until: now.Add(deniedFor)}
	if verdict == Allowed {
		k.until = now.Add(allowedFor)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evictTokens(now)
	g.known[key] = k
	return verdict, nil
}

// evictTokens drops tokens when there are too many: first those that were no good, then all.
func (g *Guard) evictTokens(now time.Time) {
	if len(g.known) < mostKnown {
		return
	}
	maps.DeleteFunc(g.known, func(_ [sha256.Size]byte, k cachedVerdict) bool { return k.verdict != Allowed && !now.Before(k.until) })
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
}

// SelfReview queries the API server in the name of the token. That needs no permission of the controller,
// while reviews of others would.
type SelfReview struct {
	client rest.Interface
}

// NewSelfReview returns a reviewer that reaches the API server as a configuration says, without its
// credentials.
func NewSelfReview(kube *rest.Config) (*SelfReview, error) {
	config := rest.AnonymousClientConfig(kube)
	config.QPS = -1 // the Guard limits
	client, err := typedauthorizationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &SelfReview{client: client.RESTClient()}, nil
}

// Review checks whether the owner of the token may get the path.
func (s *SelfReview) Review(ctx context.Context, token, path string) (Verdict, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}
	response := &authorizationv1.SelfSubjectAccessReview{}
	err := s.client.Post().Resource("selfsubjectaccessreviews").VersionedParams(&metav1.CreateOptions{}, metav1.ParameterCodec).
		SetHeader("Authorization", "Bearer "+token).Body(review).Do(ctx).Into(response)
	switch {
	case apierrors.IsUnauthorized(err):
		return Unknown, nil
	case apierrors.IsForbidden(err):
		return Forbidden, nil
	case err != nil:
		return Unknown, err
	case response.Status.Allowed:
		return Allowed, nil
	}
	return Forbidden, nil
}
