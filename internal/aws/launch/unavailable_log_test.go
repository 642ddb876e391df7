package launch

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// S-101: at the default level a search of the log for "instance type" finds what EC2 cannot deliver, in one line per response,
// however many offerings that names.
func TestTrust_B09_UnavailableTypesAreLoggedAtTheDefaultLevel(t *testing.T) {
	t.Parallel()
	var types []catalog.InstanceType
	for n := range 150 {
		types = append(types, kind(fmt.Sprintf("m%d.large", n), spot("a", float64(n+1))))
	}
	inBubble(t, types, func(l *fixture) {
		t := l.t
		l.response = func(n int, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
			return l.serve(in, func(string, string) string {
				if n < 3 {
					return "InsufficientInstanceCapacity"
				}
				return ""
			}), nil
		}
		var mu sync.Mutex
		var logged []string
		logger := funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(line, "instance type") {
				logged = append(logged, line)
			}
		}, funcr.Options{}) // as the controller by default: V(1) is not written
		if _, err := l.Launch(log.IntoContext(t.Context(), logger), l.request(nodeClaim("x"))); err != nil {
			t.Fatal(err)
		}
		if len(logged) != 2 {
			t.Fatalf("%d lines for two responses without capacity: %s", len(logged), strings.Join(logged, "\n"))
		}
		for _, want := range []string{`"reasons"=["InsufficientInstanceCapacity"]`, "instance type m0.large is not available as spot in zone a", `"more"=50`, `"error"=null`} {
			if !strings.Contains(logged[0], want) {
				t.Errorf("%s is missing in %s", want, logged[0])
			}
		}
	})
}
