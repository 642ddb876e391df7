package columns_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/columns"
)

func TestText(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rows [][]string
		want string
	}{
		"nothing is nothing": {},
		"words stand left, figures right": {
			rows: [][]string{{"NAME", "PODS", "COST"}, {"s1-500", "500", "$3.10"}, {"s1", "5", "-"}},
			want: "NAME    PODS   COST\ns1-500   500  $3.10\ns1         5      -\n",
		},
		"sentences and times begin with figures, and stand left": {
			rows: [][]string{{"TIME", "TEXT", "ROOM"}, {"2026-11-01T12:00:00Z", "0/5 nodes are available", "7.2Gi"}, {"12:00:00", "3 pods", "930m"}},
			want: "TIME                  TEXT                      ROOM\n2026-11-01T12:00:00Z  0/5 nodes are available  7.2Gi\n12:00:00              3 pods                    930m\n",
		},
		"a column of nothing but dashes stands left": {
			rows: [][]string{{"POOL", "AGE"}, {"-", "-"}, {"-", "3s"}},
			want: "POOL  AGE\n-       -\n-      3s\n",
		},
		"no line ends in blanks": {
			rows: [][]string{{"A", "B"}, {"x", ""}, {"longer", "word"}},
			want: "A       B\nx\nlonger  word\n",
		},
		"letters count, not bytes": {
			rows: [][]string{{"A", "B"}, {"é…", "x"}, {"ab", "y"}},
			want: "A   B\né…  x\nab  y\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := columns.Text(tc.rows); got != tc.want {
				t.Errorf("Text() =\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
