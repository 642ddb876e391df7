package apiproxy_test

import (
	"bytes"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

func config(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text}}
}

// What is done when a trigger fires, and what the client gets.
func TestTriggersFireBetweenSteps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		moment              apiproxy.Moment
		wantMade, wantError bool
	}{
		"before the request: nothing is done":     {apiproxy.BeforeRequest, false, false},
		"before the response: done, not reported": {apiproxy.BeforeResponse, true, false},
		"after the response: done and reported":   {apiproxy.AfterResponse, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, client := newProxiedClient(t)
			maps := client.CoreV1().ConfigMaps("default")
			object := "trigger-" + string(rune('a'+int(tc.moment)))
			var got apiproxy.Request
			fired, _ := proxy.Once(apiproxy.Trigger{
				Match: apiproxy.Match{Verb: "create", Resource: "configmaps", Body: "second of " + object}, Moment: tc.moment,
				Run: func(r apiproxy.Request) { got = r },
			})
			if _, err := maps.Create(t.Context(), config(object+"-first", "another"), metav1.CreateOptions{}); err != nil {
				t.Fatalf("a request that does not match: %v", err)
			}
			_, err := maps.Create(t.Context(), config(object, "second of "+object), metav1.CreateOptions{})
			if (err == nil) != tc.wantError {
				t.Errorf("the client is told %v", err)
			}
			<-fired
			if got.Verb != "create" || got.Resource != "configmaps" || got.Namespace != "default" {
				t.Errorf("fired at %+v", got)
			}
			_, err = maps.Get(t.Context(), object, metav1.GetOptions{})
			if made := !apierrors.IsNotFound(err); made != tc.wantMade {
				t.Errorf("made %v: %v", made, err)
			}
		})
	}
}

// A step that the API server refuses was not done: the trigger waits for the next, and the client learns why.
func TestTriggersWaitForSuccess(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), config("taken", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fired, cancel := proxy.Once(apiproxy.Trigger{
		Match: apiproxy.Match{Verb: "create", Resource: "configmaps"}, Moment: apiproxy.BeforeResponse, Run: func(apiproxy.Request) {},
	})
	defer cancel()
	if _, err := maps.Create(t.Context(), config("taken", ""), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("reported %v, want that it exists", err)
	}
	select {
	case <-fired:
		t.Error("fired at a refusal")
	default:
	}
	if _, err := maps.Create(t.Context(), config("free", ""), metav1.CreateOptions{}); err == nil {
		t.Error("got the step that set it off")
	}
	<-fired
}

// The third request, and a trigger that was cancelled never.
func TestTriggersCountAndCancel(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	runs := 0
	match := apiproxy.Match{Verb: "list", Resource: "nodes"}
	fired, _ := proxy.Once(apiproxy.Trigger{Match: match, After: 2, Moment: apiproxy.AfterResponse, Run: func(apiproxy.Request) { runs++ }})
	never, cancel := proxy.Once(apiproxy.Trigger{Match: match, After: 1, Moment: apiproxy.AfterResponse, Run: func(apiproxy.Request) { t.Error("fired after cancel") }})
	cancel()
	for range 4 {
		if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	<-fired
	if runs != 1 {
		t.Errorf("fired %d times", runs)
	}
	select {
	case <-never:
		t.Error("fired after cancel")
	default:
	}
}

func TestWatchShowsRequests(t *testing.T) {
	t.Parallel()
	proxy, client := newProxiedClient(t)
	reported := make(chan apiproxy.Request, 10)
	stop := proxy.Watch(func(r apiproxy.Request) { reported <- r })
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), config("shown", "hello"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "shown", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}); !apierrors.IsConflict(err) {
		t.Errorf("deleted another object: %v", err)
	}
	if r := <-reported; r.Verb != "create" || r.Status != http.StatusCreated || !bytes.Contains(r.Body, []byte("hello")) || !r.Writes() {
		t.Errorf("creation seen as %+v", r)
	}
	if r := <-reported; r.Verb != "delete" || r.Name != "shown" || r.Status != http.StatusConflict || !bytes.Contains(r.Body, []byte("another")) {
		t.Errorf("deletion seen as %+v", r)
	}
	stop()
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(reported) > 0 {
		t.Errorf("saw %+v after the end", <-reported)
	}
}
