package near_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/near"
)

func TestTrust_C05_NearestWord(t *testing.T) {
	t.Parallel()
	known := []string{"requirements", "taints", "m5.large", "m5.xlarge", "NodeRepair"}
	for word, want := range map[string]string{
		"requirments": "requirements", "m5.larg": "m5.large", "noderepair": "NodeRepair", "NodeRepairs": "NodeRepair", "taint": "taints", "wholly-else": "", "": "",
	} {
		if got := near.Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := near.Hint("taint", known); got != `; did you mean "taints"?` {
		t.Errorf("hint %q", got)
	}
}
