package budget_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

func TestLimit(t *testing.T) {
	t.Parallel()
	const wednesday = "2024-05-15T10:00:00Z"
	office := cluster.Budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"}
	for name, tc := range map[string]struct {
		budgets []cluster.Budget
		cause   string
		total   int
		now     string
		want    int
	}{
		"API-5 no budgets at all":                       {total: 10, want: budget.Unlimited},
		"API-5 a number is itself":                      {budgets: nodes("5"), total: 100, want: 5},
		"API-5 a number is not limited by the pool":     {budgets: nodes("5"), total: 2, want: 5},
		"API-5 percent rounds up":                       {budgets: nodes("5%"), total: 10, want: 1},
		"API-5 percent rounds up to the next":           {budgets: nodes("20%"), total: 19, want: 4},
		"API-5 percent that divides":                    {budgets: nodes("10%"), total: 200, want: 20},
		"API-5 no percent of many":                      {budgets: nodes("0%"), total: 1000, want: 0},
		"API-5 all of them":                             {budgets: nodes("100%"), total: 7, want: 7},
		"API-5 percent of nothing":                      {budgets: nodes("10%"), total: 0, want: 0},
		"API-5 the strictest wins":                      {budgets: nodes("50%", "3", "20%"), total: 10, want: 2},
		"API-5 a reason that is not listed":             {budgets: []cluster.Budget{{Nodes: "0", Reasons: []string{"Empty"}}}, cause: "Drifted", total: 10, want: budget.Unlimited},
		"API-5 a reason that is listed":                 {budgets: []cluster.Budget{{Nodes: "0", Reasons: []string{"Empty", "Drifted"}}}, cause: "Drifted", total: 10, want: 0},
		"API-5 reasons are case-sensitive":              {budgets: []cluster.Budget{{Nodes: "0", Reasons: []string{"drifted"}}}, cause: "Drifted", total: 10, want: budget.Unlimited},
		"API-5 an empty list is all reasons":            {budgets: []cluster.Budget{{Nodes: "0", Reasons: []string{}}}, cause: "Drifted", total: 10, want: 0},
		"API-5 the documented example":                  {budgets: []cluster.Budget{{Nodes: "20%", Reasons: []string{"Empty", "Drifted"}}, {Nodes: "5"}, office}, cause: "Empty", total: 12, now: "2024-05-15T18:00:00Z", want: 3},
		"API-5 office hours":                            {budgets: []cluster.Budget{office}, total: 10, now: wednesday, want: 0},
		"V15-07 a budget without reasons paces repair":  {budgets: nodes("10%"), cause: "Unhealthy", total: 11, want: 2},
		"V15-07 a budget may name repair":               {budgets: []cluster.Budget{{Nodes: "1", Reasons: []string{"Unhealthy"}}}, cause: "Unhealthy", total: 50, want: 1},
		"V15-07 a budget for repair leaves drift alone": {budgets: []cluster.Budget{{Nodes: "1", Reasons: []string{"Unhealthy"}}}, cause: "Drifted", total: 50, want: budget.Unlimited},
		"counts below zero are none":                    {budgets: nodes("50%"), total: -4, want: 0},
		"the largest counts":                            {budgets: nodes("99%"), total: math.MaxInt, want: budget.Unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.now == "" {
				tc.now = wednesday
			}
			got, broken := budget.Limit(tc.budgets, tc.cause, tc.total, at(t, tc.now))
			if got != tc.want {
				t.Errorf("Limit() = %d, want %d", got, tc.want)
			}
			if broken != nil {
				t.Errorf("broken: %v", broken)
			}
		})
	}
}

func TestBrokenBudgetsCloseThePool(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		budgets []cluster.Budget
		want    []string
	}{
		"NP-10 a schedule without a duration": {
			budgets: []cluster.Budget{{Nodes: "5", Schedule: "@daily"}},
			want:    []string{"spec.disruption.budgets[0].schedule: budget @daily cannot be read: a duration must be given with it (NP-10)"},
		},
		"NP-10 a duration without a schedule": {
			budgets: []cluster.Budget{{Nodes: "5", Duration: "8h"}},
			want:    []string{"spec.disruption.budgets[0].duration: budget 8h cannot be read: a schedule must be given with it (NP-10)"},
		},
		"API-5 a broken budget closes the pool for reasons it does not name": {
			budgets: []cluster.Budget{{Nodes: "5"}, {Nodes: "ten", Reasons: []string{"Empty"}}},
			want:    []string{"spec.disruption.budgets[1].nodes: budget ten cannot be read: want 0% to 100%, or a number of zero or more (API-5)"},
		},
		"API-5 every broken field is named": {
			budgets: []cluster.Budget{{Nodes: "", Schedule: "@daily", Duration: "8d"}, {Nodes: "101%"}},
			want: []string{
				`spec.disruption.budgets[0].nodes: budget "" cannot be read: want 0% to 100%, or a number of zero or more (API-5)`,
				"spec.disruption.budgets[0].duration: budget 8d cannot be read: want hours and minutes, such as 8h, 90m or 1h30m (API-5)",
				"spec.disruption.budgets[1].nodes: budget 101% cannot be read: want 0% to 100%, or a number of zero or more (API-5)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, broken := budget.Limit(tc.budgets, "Drifted", 10, at(t, "2024-05-15T10:00:00Z"))
			if got != 0 {
				t.Errorf("Limit() = %d, want none", got)
			}
			var texts []string
			for _, b := range broken {
				texts = append(texts, b.Text())
				if b.Code != reason.BudgetUnreadable {
					t.Errorf("code %s", b.Code)
				}
			}
			if diff := cmp.Diff(tc.want, texts); diff != "" {
				t.Errorf("broken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text       string
		want       int // of 1000
		wantBroken bool
	}{
		"API-5 zero":                         {text: "0"},
		"API-5 leading zeros":                {text: "007", want: 7},
		"API-5 zero percent":                 {text: "0%"},
		"API-5 two digits":                   {text: "05%", want: 50},
		"API-5 one hundred":                  {text: "100%", want: 1000},
		"API-5 the largest number":           {text: "2147483647", want: math.MaxInt32},
		"API-5 one more than the largest":    {text: "2147483648", want: math.MaxInt32},
		"API-5 far more than the largest":    {text: strings.Repeat("9", 400), want: math.MaxInt32},
		"API-5 empty":                        {wantBroken: true},
		"API-5 percent sign alone":           {text: "%", wantBroken: true},
		"API-5 more than all":                {text: "101%", wantBroken: true},
		"API-5 three digits":                 {text: "010%", wantBroken: true},
		"API-5 negative":                     {text: "-1", wantBroken: true},
		"API-5 negative percent":             {text: "-1%", wantBroken: true},
		"API-5 plus sign":                    {text: "+1", wantBroken: true},
		"API-5 fraction":                     {text: "1.5%", wantBroken: true},
		"API-5 space":                        {text: "10 %", wantBroken: true},
		"API-5 line break":                   {text: "10\n", wantBroken: true},
		"API-5 two percent signs":            {text: "10%%", wantBroken: true},
		"API-5 digits of another script":     {text: "٣", wantBroken: true},
		"API-5 characters just past digits":  {text: "1:", wantBroken: true},
		"API-5 characters just below digits": {text: "1/", wantBroken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, broken := budget.ParseNodes(tc.text)
			if (broken != nil) != tc.wantBroken {
				t.Fatalf("ParseNodes(%q) = %v", tc.text, broken)
			}
			if n := got.Of(1000); n != tc.want {
				t.Errorf("ParseNodes(%q).Of(1000) = %d, want %d", tc.text, n, tc.want)
			}
		})
	}
}

func TestLimitProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		budgets := rapid.SliceOfN(rapid.Custom(drawBudget), 0, 5).Draw(t, "budgets")
		more := drawBudget(t)
		cause := rapid.SampledFrom([]string{"Empty", "Drifted", "Underutilized", "Unhealthy"}).Draw(t, "cause")
		total := rapid.Int().Draw(t, "total")
		now := time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "now"), 0)
		checkInvariants(t, budgets, more, cause, total, now)
	})
}

func FuzzBudget(f *testing.F) {
	f.Add("10%", "0 9 * * mon-fri", "8h", "Empty", "Empty", 10, int64(1715767200))
	f.Add("5", "", "", "", "Drifted", -1, int64(0))
	f.Add("99999999999999999999", "0 0 29 2 *", "2562047h", "Unhealthy", "Unhealthy", math.MaxInt, int64(math.MaxInt64))
	f.Add("100%", ",,, * * * *", "8h0m0s", "x", "y", 1, int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, nodes, schedule, lasts, listed, cause string, total int, now int64) {
		fuzzed := cluster.Budget{Nodes: nodes, Schedule: schedule, Duration: lasts}
		if listed != "" {
			fuzzed.Reasons = []string{listed}
		}
		checkInvariants(t, []cluster.Budget{{Nodes: "50%"}}, fuzzed, cause, total, time.Unix(now, 0))
	})
}

// checkInvariants: never negative, never more than unlimited, another budget never allows more, what
// cannot be read closes the pool, and so does nothing else that is readable.
func checkInvariants(t rapid.TB, budgets []cluster.Budget, more cluster.Budget, cause string, total int, now time.Time) {
	t.Helper()
	without, brokenWithout := budget.Limit(budgets, cause, total, now)
	with, brokenWith := budget.Limit(append(slices.Clip(budgets), more), cause, total, now)
	_, brokenAlone := budget.Limit([]cluster.Budget{more}, cause, total, now)
	reversed, _ := budget.Limit(append([]cluster.Budget{more}, budgets...), cause, total, now)
	switch {
	case with < 0 || without < 0 || with > budget.Unlimited || without > budget.Unlimited:
		t.Fatalf("allowed %d and %d", without, with)
	case with > without:
		t.Fatalf("%+v raised %d to %d", more, without, with)
	case with != reversed:
		t.Fatalf("order matters: %d and %d", with, reversed)
	case len(brokenWith) > 0 && with != 0:
		t.Fatalf("%v, yet %d allowed", brokenWith, with)
	case len(brokenWith) != len(brokenWithout)+len(brokenAlone):
		t.Fatalf("%d broken fields of %d and %d", len(brokenWith), len(brokenWithout), len(brokenAlone))
	}
}

func drawBudget(t *rapid.T) cluster.Budget {
	b := cluster.Budget{
		Nodes:   rapid.OneOf(rapid.StringMatching(`[0-9]{1,3}%?`), rapid.Just("none"), rapid.StringMatching(`[0-9]{1,25}`)).Draw(t, "nodes"),
		Reasons: rapid.SliceOfN(rapid.SampledFrom([]string{"Empty", "Drifted", "Underutilized", "Unhealthy"}), 0, 2).Draw(t, "reasons"),
	}
	if rapid.Bool().Draw(t, "scheduled") {
		b.Schedule = rapid.SampledFrom([]string{"@daily", "0 9 * * mon-fri", "*/15 * * * *", "0 0 30 2 *", "TZ=UTC", ""}).Draw(t, "schedule")
		b.Duration = rapid.SampledFrom([]string{"8h", "90m", "1h30m0s", "0m", "5s", ""}).Draw(t, "duration")
	}
	return b
}

func nodes(texts ...string) []cluster.Budget {
	var budgets []cluster.Budget
	for _, text := range texts {
		budgets = append(budgets, cluster.Budget{Nodes: text})
	}
	return budgets
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
