package scenario_test

import (
	"os"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// Whatever is read is either refused with a reason or can be planned for.
func FuzzLoad(f *testing.F) {
	good, err := os.ReadFile("testdata/tiny.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add(`{"name":"n","nodePools":[null],"pods":[null],"templates":{"x":null},"nodes":[{"pods":[{"count":1,"templateRef":"x"}]}]}`)
	f.Add(` [`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Load([]byte(text), awsv1.Vocabulary())
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		const most = 1000 // copies cost time and find nothing
		total := s.Waiting()
		for i := range s.Nodes {
			for j := range s.Nodes[i].Pods {
				total += *s.Nodes[i].Pods[j].Count
			}
		}
		if total <= most {
			s.World(time.Unix(0, 0)).Compile().Candidates()
		}
	})
}
