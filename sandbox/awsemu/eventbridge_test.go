package awsemu

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// events calls EventBridge as its clients do: JSON 1.1 with a target header.
func (c *cloud) events(t *testing.T, action, body string, into any) (status int, code string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(body))
	check(t, err)
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSEvents."+action)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDTEST/20300101/eu-west-1/events/aws4_request, SignedHeaders=host, Signature=0")
	res, err := c.cfg.HTTPClient.Do(req)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	check(t, err)
	var failure struct {
		Type string `json:"__type"`
	}
	check(t, json.Unmarshal(text, &failure))
	if into != nil {
		check(t, json.Unmarshal(text, into))
	}
	return res.StatusCode, failure.Type
}

func TestRulesOfTheFixture(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	var list struct {
		Rules     []ruleOutput
		NextToken string
	}
	c.events(t, "ListRules", `{"NamePrefix":"Karpenter"}`, &list)
	var names []string
	for _, rule := range list.Rules {
		names = append(names, strings.TrimPrefix(rule.Name, "Karpenter-sandbox-"))
	}
	if want := []string{"CapacityReservationInterruptionRule", "InstanceStateChangeRule", "RebalanceRule", "ScheduledChangeRule", "SpotInterruptionRule"}; !slices.Equal(names, want) {
		t.Errorf("rules %v, want %v", names, want)
	}
	var rule ruleOutput
	c.events(t, "DescribeRule", `{"Name":"Karpenter-sandbox-ScheduledChangeRule"}`, &rule)
	if rule.EventPattern != `{"source":["aws.health"],"detail-type":["AWS Health Event"]}` || rule.State != "ENABLED" || rule.Arn != "arn:aws:events:eu-west-1:111122223333:rule/Karpenter-sandbox-ScheduledChangeRule" {
		t.Errorf("rule %+v", rule)
	}
	var filling struct{ RuleNames []string }
	c.events(t, "ListRuleNamesByTarget", `{"TargetArn":"arn:aws:sqs:eu-west-1:111122223333:Karpenter-sandbox"}`, &filling)
	if len(filling.RuleNames) != len(names) || filling.RuleNames[0] != "Karpenter-sandbox-"+names[0] {
		t.Errorf("rules that fill the queue %v", filling.RuleNames)
	}
	c.events(t, "ListRuleNamesByTarget", `{"TargetArn":"arn:aws:sqs:eu-west-1:111122223333:other"}`, &filling)
	if len(filling.RuleNames) != 0 {
		t.Errorf("rules that fill another queue %v", filling.RuleNames)
	}
	var targets struct{ Targets []ruleTargetJSON }
	c.events(t, "ListTargetsByRule", `{"Rule":"Karpenter-sandbox-SpotInterruptionRule"}`, &targets)
	if want := (ruleTargetJSON{ID: "KarpenterInterruptionQueueTarget", Arn: "arn:aws:sqs:eu-west-1:111122223333:Karpenter-sandbox"}); len(targets.Targets) != 1 || targets.Targets[0] != want {
		t.Errorf("targets %+v", targets)
	}
	var page struct {
		Rules     []ruleOutput
		NextToken string
	}
	c.events(t, "ListRules", `{"NamePrefix":"Karpenter","Limit":3}`, &page)
	if len(page.Rules) != 3 || page.NextToken == "" {
		t.Errorf("first page %+v", page)
	}
	token := page.NextToken
	page.Rules, page.NextToken = nil, ""
	c.events(t, "ListRules", `{"NamePrefix":"Karpenter","Limit":3,"NextToken":"`+token+`"}`, &page)
	if len(page.Rules) != 2 || page.NextToken != "" {
		t.Errorf("second page %+v", page)
	}
}

func TestRuleLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	queues := func(kind EventKind) (names []string) {
		c.runLocked(func(time.Time) { names = c.queuesFor(kind) })
		return names
	}
	c.set(t, http.MethodPut, "queues", `{"other":{}}`)
	c.set(t, http.MethodPut, "events", `{"EC2 Instance Rebalance Recommendation":[]}`)
	if got := queues(EventRebalance); len(got) != 0 {
		t.Errorf("without a rule: %v", got)
	}
	if status, code := c.events(t, "DescribeRule", `{"Name":"Karpenter-sandbox-RebalanceRule"}`, nil); status != 400 || code != "ResourceNotFoundException" {
		t.Errorf("the rule is still there: %d %s", status, code)
	}
	if got := queues(EventSpotInterruption); !slices.Equal(got, []string{"Karpenter-sandbox"}) {
		t.Errorf("others must stay: %v", got)
	}
	c.events(t, "PutRule", `{"Name":"mine","EventPattern":"{\"source\":[\"aws.ec2\"],\"detail-type\":[\"EC2 Instance Rebalance Recommendation\"]}"}`, nil)
	c.events(t, "PutTargets", `{"Rule":"mine","Targets":[{"Id":"1","Arn":"arn:aws:sqs:eu-west-1:111122223333:other"}]}`, nil)
	if got := queues(EventRebalance); !slices.Equal(got, []string{"other"}) {
		t.Errorf("with a rule: %v", got)
	}
	c.events(t, "PutRule", `{"Name":"mine","State":"DISABLED","EventPattern":"{\"source\":[\"aws.ec2\"]}"}`, nil)
	if got := queues(EventRebalance); len(got) != 0 {
		t.Errorf("with a disabled rule: %v", got)
	}
	for name, tc := range map[string]struct{ action, body, code string }{
		"a rule with targets stays":      {"DeleteRule", `{"Name":"mine"}`, "ValidationException"},
		"patterns beyond source":         {"PutRule", `{"Name":"x","EventPattern":"{\"detail\":{}}"}`, "InvalidEventPatternException"},
		"patterns that are none":         {"PutRule", `{"Name":"x","EventPattern":""}`, "InvalidEventPatternException"},
		"states that are none":           {"PutRule", `{"Name":"x","State":"X","EventPattern":"{}"}`, "ValidationException"},
		"names that are none":            {"PutRule", `{"Name":"a b","EventPattern":"{}"}`, "ValidationException"},
		"targets that are no queue":      {"PutTargets", `{"Rule":"mine","Targets":[{"Id":"1","Arn":"arn:aws:lambda:x"}]}`, "ValidationException"},
		"targets of a missing rule":      {"PutTargets", `{"Rule":"none"}`, "ResourceNotFoundException"},
		"list targets of a missing rule": {"ListTargetsByRule", `{"Rule":"none"}`, "ResourceNotFoundException"},
		"remove from a missing rule":     {"RemoveTargets", `{"Rule":"none"}`, "ResourceNotFoundException"},
	} {
		if status, code := c.events(t, tc.action, tc.body, nil); status != 400 || code != tc.code {
			t.Errorf("%s: %d %s, want 400 %s", name, status, code, tc.code)
		}
	}
	c.events(t, "RemoveTargets", `{"Rule":"mine","Ids":["1"]}`, nil)
	if status, code := c.events(t, "DeleteRule", `{"Name":"mine"}`, nil); status != 200 {
		t.Errorf("delete: %d %s", status, code)
	}
	if status := c.callControlAPI(t, http.MethodPut, "events", `{"Nonsense":[]}`, nil); status != http.StatusBadRequest {
		t.Errorf("unknown kind gives %d", status)
	}
	var kinds map[string][]string
	c.callControlAPI(t, http.MethodGet, "events", "", &kinds)
	if len(kinds) != 5 || len(kinds[string(EventHealth)]) != 1 || len(kinds[string(EventRebalance)]) != 0 {
		t.Errorf("events %v", kinds)
	}
}
