package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/iam"
)

// policyOf is a policy of statements.
func policyOf(statements ...string) string {
	return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
}

func allowStatement(action, resource, more string) string {
	return fmt.Sprintf(`{"Effect":"Allow","Action":%s,"Resource":%s%s}`, action, resource, more)
}

func denyStatement(action, resource, more string) string {
	return strings.Replace(allowStatement(action, resource, more), "Allow", "Deny", 1)
}

func conditionBlock(conditions string) string { return `,"Condition":` + conditions }

func parseDocuments(tb testing.TB, kind Kind, texts ...string) []*Document {
	tb.Helper()
	var list []*Document
	for _, text := range texts {
		d, err := Parse(kind, text)
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		list = append(list, d)
	}
	return list
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	const instance, bucket = "arn:aws:ec2:eu-west-1:111122223333:instance/i-1", "arn:aws:s3:::bucket/key"
	type request = Request
	for name, tc := range map[string]struct {
		policies []string
		request  request
		want     bool
		denied   string // the statement that denies
	}{
		"nothing is allowed by default":     {[]string{policyOf(allowStatement(`"ec2:RunInstances"`, `"*"`, ""))}, request{Action: "ec2:TerminateInstances", Resource: "*"}, false, ""},
		"one statement without a list":      {[]string{`{"Statement":` + allowStatement(`"ec2:RunInstances"`, `"*"`, "") + `}`}, request{Action: "ec2:RunInstances", Resource: "*"}, true, ""},
		"a list of actions":                 {[]string{policyOf(allowStatement(`["a:B","ec2:RunInstances"]`, `"*"`, ""))}, request{Action: "ec2:RunInstances", Resource: "*"}, true, ""},
		"the case of actions is free":       {[]string{policyOf(allowStatement(`"EC2:runinstances"`, `"*"`, ""))}, request{Action: "ec2:RunInstances", Resource: "*"}, true, ""},
		"a wildcard in an action":           {[]string{policyOf(allowStatement(`"ec2:describe*"`, `"*"`, ""))}, request{Action: "ec2:DescribeSubnets", Resource: "*"}, true, ""},
		"a question mark is one character":  {[]string{policyOf(allowStatement(`"ec2:Run?"`, `"*"`, ""))}, request{Action: "ec2:RunXY", Resource: "*"}, false, ""},
		"every action":                      {[]string{policyOf(allowStatement(`"*"`, `"*"`, ""))}, request{Action: "iam:PassRole", Resource: instance}, true, ""},
		"another service":                   {[]string{policyOf(allowStatement(`"ec2:*"`, `"*"`, ""))}, request{Action: "ec2x:A", Resource: "*"}, false, ""},
		"a resource":                        {[]string{policyOf(allowStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:instance/*"`, ""))}, request{Action: "ec2:A", Resource: instance}, true, ""},
		"another resource":                  {[]string{policyOf(allowStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:volume/*"`, ""))}, request{Action: "ec2:A", Resource: instance}, false, ""},
		"the case of resources matters":     {[]string{policyOf(allowStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:Instance/*"`, ""))}, request{Action: "ec2:A", Resource: instance}, false, ""},
		"an action without a resource":      {[]string{policyOf(allowStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:instance/*"`, ""))}, request{Action: "ec2:A", Resource: "*"}, false, ""},
		"NotAction":                         {[]string{policyOf(`{"Effect":"Allow","NotAction":["iam:*"],"Resource":"*"}`)}, request{Action: "ec2:A", Resource: "*"}, true, ""},
		"NotAction names it":                {[]string{policyOf(`{"Effect":"Allow","NotAction":["iam:*"],"Resource":"*"}`)}, request{Action: "iam:A", Resource: "*"}, false, ""},
		"NotResource":                       {[]string{policyOf(`{"Effect":"Allow","Action":"s3:*","NotResource":"arn:aws:s3:::bucket/*"}`)}, request{Action: "s3:A", Resource: bucket}, false, ""},
		"NotResource of another":            {[]string{policyOf(`{"Effect":"Allow","Action":"s3:*","NotResource":"arn:aws:s3:::other/*"}`)}, request{Action: "s3:A", Resource: bucket}, true, ""},
		"a Deny after an Allow":             {[]string{policyOf(allowStatement(`"*"`, `"*"`, ""), denyStatement(`"ec2:*"`, `"*"`, ""))}, request{Action: "ec2:A", Resource: "*"}, false, "statement 2"},
		"a Deny before an Allow":            {[]string{policyOf(denyStatement(`"ec2:*"`, `"*"`, ""), allowStatement(`"*"`, `"*"`, ""))}, request{Action: "ec2:A", Resource: "*"}, false, "statement 1"},
		"a Deny in another policy":          {[]string{policyOf(allowStatement(`"*"`, `"*"`, "")), policyOf(denyStatement(`"ec2:A"`, `"*"`, ""))}, request{Action: "ec2:A", Resource: "*"}, false, "statement 1"},
		"a Deny of something else":          {[]string{policyOf(allowStatement(`"*"`, `"*"`, ""), denyStatement(`"ec2:B"`, `"*"`, ""))}, request{Action: "ec2:A", Resource: "*"}, true, ""},
		"a resource that is not known yet":  {[]string{policyOf(allowStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:instance/*"`, ""), denyStatement(`"ec2:*"`, `"arn:aws:ec2:*:*:volume/*"`, ""))}, request{Action: "ec2:A"}, true, ""},
		"tags that are not known: allowed":  {[]string{policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"aws:ResourceTag/a":"b"}}`)))}, request{Action: "a:B", Resource: "*", Unknown: []string{"aws:ResourceTag/"}}, true, ""},
		"tags that are not known: no deny":  {[]string{policyOf(allowStatement(`"*"`, `"*"`, ""), denyStatement(`"*"`, `"*"`, conditionBlock(`{"StringNotEquals":{"aws:ResourceTag/a":"b"}}`)))}, request{Action: "a:B", Resource: "*", Unknown: []string{"aws:ResourceTag/"}}, true, ""},
		"two conditions, of which one":      {[]string{policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"a:x":"1","a:y":"2"}}`)))}, request{Action: "a:B", Resource: "*", Context: map[string][]string{"a:x": {"1"}, "a:y": {"1"}}}, false, ""},
		"a condition of a Deny":             {[]string{policyOf(allowStatement(`"*"`, `"*"`, ""), denyStatement(`"*"`, `"*"`, conditionBlock(`{"Bool":{"aws:SecureTransport":"false"}}`)))}, request{Action: "a:B", Resource: "*", Context: map[string][]string{"aws:SecureTransport": {"true"}}}, true, ""},
		"the case of condition keys":        {[]string{policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"AWS:requesttag/Name":"1"}}`)))}, request{Action: "a:B", Resource: "*", Context: map[string][]string{"aws:RequestTag/Name": {"1"}}}, true, ""},
		"no statement of a second document": {[]string{policyOf(denyStatement(`"ec2:A"`, `"*"`, "")), policyOf(allowStatement(`"ec2:B"`, `"*"`, ""))}, request{Action: "ec2:B", Resource: "*"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Evaluate(&tc.request, parseDocuments(t, Identity, tc.policies...)...)
			if got.Allowed != tc.want || got.Denied != tc.denied {
				t.Errorf("verdict %+v, want allowed %v, denied by %q", got, tc.want, tc.denied)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	one := func(values ...string) map[string][]string { return map[string][]string{"k": values} }
	for name, tc := range map[string]struct {
		conditions string
		context    map[string][]string
		want       bool
	}{
		"StringEquals":                          {`{"StringEquals":{"k":"a"}}`, one("a"), true},
		"StringEquals of a list":                {`{"StringEquals":{"k":["b","a"]}}`, one("a"), true},
		"StringEquals: another":                 {`{"StringEquals":{"k":"a"}}`, one("b"), false},
		"StringEquals: another case":            {`{"StringEquals":{"k":"a"}}`, one("A"), false},
		"StringEquals knows no wildcards":       {`{"StringEquals":{"k":"*"}}`, one("a"), false},
		"StringEquals: absent":                  {`{"StringEquals":{"k":"a"}}`, nil, false},
		"StringEqualsIfExists: absent":          {`{"StringEqualsIfExists":{"k":"a"}}`, nil, true},
		"StringEqualsIfExists: another":         {`{"StringEqualsIfExists":{"k":"a"}}`, one("b"), false},
		"StringEqualsIgnoreCase":                {`{"StringEqualsIgnoreCase":{"k":"a"}}`, one("A"), true},
		"StringNotEquals":                       {`{"StringNotEquals":{"k":["a","b"]}}`, one("c"), true},
		"StringNotEquals: the second":           {`{"StringNotEquals":{"k":["a","b"]}}`, one("b"), false},
		"StringNotEquals: absent":               {`{"StringNotEquals":{"k":"a"}}`, nil, true},
		"StringNotEqualsIgnoreCase":             {`{"StringNotEqualsIgnoreCase":{"k":"a"}}`, one("A"), false},
		"StringLike":                            {`{"StringLike":{"k":"a*c?"}}`, one("abbcd"), true},
		"StringLike: one more":                  {`{"StringLike":{"k":"a*c?"}}`, one("abbc"), false},
		"StringLike: one character of many":     {`{"StringLike":{"k":"ä?ö"}}`, one("äüö"), true},
		"StringLike of anything: absent":        {`{"StringLike":{"k":"*"}}`, nil, false},
		"StringLike of anything: empty":         {`{"StringLike":{"k":"*"}}`, one(""), true},
		"StringNotLike":                         {`{"StringNotLike":{"k":"a*"}}`, one("b"), true},
		"ArnLike":                               {`{"ArnLike":{"k":"arn:aws:sqs:*:1:q*"}}`, one("arn:aws:sqs:eu-west-1:1:queue"), true},
		"ArnLike stays within its part":         {`{"ArnLike":{"k":"arn:aws:*:queue"}}`, one("arn:aws:sqs:eu-west-1:1:queue"), false},
		"ArnEquals is ArnLike":                  {`{"ArnEquals":{"k":"arn:aws:iam::*:role/*"}}`, one("arn:aws:iam::1:role/a/b"), true},
		"ArnNotEquals":                          {`{"ArnNotEquals":{"k":"arn:aws:iam::1:role/a"}}`, one("arn:aws:iam::1:role/a"), false},
		"Bool":                                  {`{"Bool":{"k":"false"}}`, one("false"), true},
		"Bool without quotes":                   {`{"Bool":{"k":true}}`, one("true"), true},
		"Bool: absent":                          {`{"Bool":{"k":"false"}}`, nil, false},
		"BoolIfExists: absent":                  {`{"BoolIfExists":{"k":"false"}}`, nil, true},
		"Null: must be absent":                  {`{"Null":{"k":"true"}}`, nil, true},
		"Null: must be absent and is not":       {`{"Null":{"k":"true"}}`, one("a"), false},
		"Null: must be there":                   {`{"Null":{"k":"false"}}`, one("a"), true},
		"Null: must be there and is not":        {`{"Null":{"k":false}}`, nil, false},
		"ForAllValues":                          {`{"ForAllValues:StringEquals":{"k":["a","b"]}}`, one("b", "a"), true},
		"ForAllValues: one too many":            {`{"ForAllValues:StringEquals":{"k":["a","b"]}}`, one("a", "c"), false},
		"ForAllValues: none":                    {`{"ForAllValues:StringEquals":{"k":"a"}}`, nil, true},
		"ForAnyValue":                           {`{"ForAnyValue:StringEquals":{"k":"a"}}`, one("b", "a"), true},
		"ForAnyValue: none of them":             {`{"ForAnyValue:StringEquals":{"k":"a"}}`, one("b", "c"), false},
		"ForAnyValue: absent":                   {`{"ForAnyValue:StringNotEquals":{"k":"a"}}`, nil, false},
		"ForAllValues with a negative: one":     {`{"ForAllValues:StringNotEquals":{"k":"a"}}`, one("b", "a"), false},
		"ForAnyValue with a negative: a second": {`{"ForAnyValue:StringNotEquals":{"k":"a"}}`, one("b", "a"), true},
		"a number as a value":                   {`{"StringEquals":{"k":5}}`, one("5"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Request{Action: "a:B", Resource: "*", Context: tc.context}
			documents := parseDocuments(t, Identity, policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(tc.conditions))))
			if got := Evaluate(r, documents...).Allowed; got != tc.want {
				t.Errorf("holds %v, want %v", got, tc.want)
			}
			if missed := Missed(r, documents...); (len(missed) == 0) != tc.want {
				t.Errorf("missed %q", missed)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind Kind
		text string
		want string
	}{
		"no JSON":                       {Identity, `{`, "policy: unexpected EOF"},
		"no object":                     {Identity, `[]`, "policy: json"},
		"two documents":                 {Identity, policyOf(allowStatement(`"*"`, `"*"`, "")) + `{}`, "there is more after the document"},
		"no statement":                  {Identity, `{"Version":"2012-10-17"}`, "no Statement"},
		"an empty list":                 {Identity, policyOf(), "no Statement"},
		"another version":               {Identity, `{"Version":"2020-01-01","Statement":[]}`, `version "2020-01-01"; want 2012-10-17`},
		"an unknown member":             {Identity, policyOf(`{"Effect":"Allow","Actions":"*","Resource":"*"}`), `unknown field "Actions"`},
		"no effect":                     {Identity, policyOf(`{"Action":"*","Resource":"*"}`), `statement 1: the Effect ""`},
		"a misspelt effect, by name":    {Identity, policyOf(`{"Sid":"S","Effect":"allow","Action":"*","Resource":"*"}`), `S: the Effect "allow": want Allow or Deny`},
		"no action":                     {Identity, policyOf(`{"Effect":"Allow","Resource":"*"}`), "the Action is missing"},
		"no action in the list":         {Identity, policyOf(`{"Effect":"Allow","Action":[],"Resource":"*"}`), "the Action is missing"},
		"both kinds of action":          {Identity, policyOf(`{"Effect":"Allow","Action":"*","NotAction":"*","Resource":"*"}`), "has Action and NotAction"},
		"an action of no service":       {Identity, policyOf(allowStatement(`"RunInstances"`, `"*"`, "")), `the Action "RunInstances"`},
		"a wildcard for the service":    {Identity, policyOf(allowStatement(`"*:RunInstances"`, `"*"`, "")), `the Action "*:RunInstances"`},
		"an action that is a number":    {Identity, policyOf(allowStatement(`5`, `"*"`, "")), "want a text or a list of texts"},
		"an action that is null":        {Identity, policyOf(allowStatement(`["a:B",null]`, `"*"`, "")), "not null"},
		"no resource":                   {Identity, policyOf(`{"Effect":"Allow","Action":"*"}`), "the Resource is missing"},
		"a resource that is no ARN":     {Identity, policyOf(allowStatement(`"*"`, `"instance/i-1"`, "")), `the Resource "instance/i-1": want an ARN or *`},
		"a principal in a role's":       {Identity, policyOf(allowStatement(`"*"`, `"*"`, `,"Principal":"*"`)), "leave it out"},
		"a queue's without principal":   {Resource, policyOf(allowStatement(`"*"`, `"*"`, "")), "the Principal is missing"},
		"a principal of another kind":   {Resource, policyOf(allowStatement(`"*"`, `"*"`, `,"Principal":{"Robot":"x"}`)), `the Principal "Robot"`},
		"a principal that is a name":    {Resource, policyOf(allowStatement(`"*"`, `"*"`, `,"Principal":"me"`)), `the Principal "me"`},
		"empty":                         {Resource, policyOf(allowStatement(`"*"`, `"*"`, `,"Principal":{}`)), "Principal is empty"},
		"NotPrincipal":                  {Resource, policyOf(allowStatement(`"*"`, `"*"`, `,"NotPrincipal":"*"`)), "NotPrincipal is not evaluated"},
		"a resource in a trust":         {Trust, policyOf(allowStatement(`"sts:AssumeRole"`, `"*"`, `,"Principal":"*"`)), "leave it out"},
		"an operator that is not there": {Identity, policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`))), `the operator "IpAddress" is not evaluated`},
		"a condition without a value":   {Identity, policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"k":[]}}`))), "no value to compare with"},
		"a condition on an object":      {Identity, policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"k":{}}}`))), "texts, numbers or booleans"},
		"a variable in a resource":      {Identity, policyOf(allowStatement(`"*"`, `"arn:aws:iam::1:user/${aws:username}"`, "")), "policy variables are not evaluated"},
		"a variable in a value":         {Identity, policyOf(allowStatement(`"*"`, `"*"`, conditionBlock(`{"StringEquals":{"k":"${aws:PrincipalTag/a}"}}`))), "policy variables are not evaluated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(tc.kind, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPrincipals(t *testing.T) {
	t.Parallel()
	values := iam.Values{
		Partition: "aws", Region: "eu-west-1", AccountID: "111122223333", ClusterName: "c", NodeRoleName: "n", QueueName: "q",
		OIDCProvider: "oidc.eks.eu-west-1.amazonaws.com/id/A", Namespace: "kube-system", ServiceAccount: "karpenter",
	}
	read := func(kind Kind, d iam.Document) *Document {
		text, err := iam.Fill(d, values)
		if err != nil {
			t.Fatal(err)
		}
		return parseDocuments(t, kind, text)[0]
	}
	const queue = "arn:aws:sqs:eu-west-1:111122223333:q"
	web := func(subject, audience string) Request {
		return Request{
			Action: "sts:AssumeRoleWithWebIdentity", Resource: "*",
			Principal: Principal{"Federated", []string{"arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A"}},
			Context:   map[string][]string{values.OIDCProvider + ":sub": {subject}, values.OIDCProvider + ":aud": {audience}},
		}
	}
	send := func(service string, tls string) Request {
		return Request{Action: "sqs:SendMessage", Resource: queue, Principal: Principal{"Service", []string{service}}, Context: map[string][]string{"aws:SecureTransport": {tls}}}
	}
	for name, tc := range map[string]struct {
		document *Document
		request  Request
		want     bool
	}{
		"EventBridge writes to the queue":        {read(Resource, iam.Queue()), send("events.amazonaws.com", "true"), true},
		"but not without TLS":                    {read(Resource, iam.Queue()), send("events.amazonaws.com", "false"), false},
		"another service":                        {read(Resource, iam.Queue()), send("s3.amazonaws.com", "true"), false},
		"an account of the same name":            {read(Resource, iam.Queue()), Request{Action: "sqs:SendMessage", Resource: queue, Principal: Principal{"AWS", []string{"events.amazonaws.com"}}}, false},
		"EC2 takes the role of nodes":            {read(Trust, iam.NodeTrust()), Request{Action: "sts:AssumeRole", Principal: Principal{"Service", []string{"ec2.amazonaws.com"}}}, true},
		"pods take the role of the controller":   {read(Trust, iam.PodIdentityTrust()), Request{Action: "sts:TagSession", Principal: Principal{"Service", []string{"pods.eks.amazonaws.com"}}}, true},
		"the web identity of the controller":     {read(Trust, iam.IRSATrust()), web("system:serviceaccount:kube-system:karpenter", "sts.amazonaws.com"), true},
		"the web identity of another account":    {read(Trust, iam.IRSATrust()), web("system:serviceaccount:default:karpenter", "sts.amazonaws.com"), false},
		"a web identity that is meant for other": {read(Trust, iam.IRSATrust()), web("system:serviceaccount:kube-system:karpenter", "kubernetes"), false},
		"any of the names": {
			parseDocuments(t, Trust, policyOf(`{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::1:role/a"]},"Action":"sts:AssumeRole"}`))[0],
			Request{Action: "sts:AssumeRole", Principal: Principal{"AWS", []string{"arn:aws:sts::1:assumed-role/a/s", "arn:aws:iam::1:role/a"}}},
			true,
		},
		"anybody": {parseDocuments(t, Trust, policyOf(`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sts:AssumeRole"}`))[0], Request{Action: "sts:AssumeRole", Principal: Principal{"AWS", []string{"x"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Evaluate(&tc.request, tc.document); got.Allowed != tc.want {
				t.Errorf("verdict %+v, want %v", got, tc.want)
			}
		})
	}
}

// Missed names the statement and the condition, and is silent where no statement speaks of the call at all.
func TestMissed(t *testing.T) {
	t.Parallel()
	documents := parseDocuments(t, Identity, policyOf(
		`{"Sid":"Owned","Effect":"Allow","Action":"ec2:TerminateInstances","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/c":"owned"}}}`))
	r := &Request{Action: "ec2:TerminateInstances", Resource: "*", Context: map[string][]string{"aws:ResourceTag/c": {"shared"}}}
	if got := Missed(r, documents...); !slices.Equal(got, []string{`Owned wants StringEquals aws:ResourceTag/c ["owned"], not ["shared"]`}) {
		t.Errorf("missed %q", got)
	}
	r.Action = "ec2:RunInstances"
	if got := Missed(r, documents...); got != nil {
		t.Errorf("missed %q", got)
	}
}

// random makes statements and requests that meet now and then.
type random struct{ *rand.Rand }

func (r random) pickText(list ...string) string { return list[r.IntN(len(list))] }

func (r random) randomStatement(effect string) string {
	s := fmt.Sprintf(`{"Effect":%q,"%sAction":%q,"%sResource":%q`, effect,
		r.pickText("", "", "Not"), r.pickText("*", "a:*", "a:X", "a:Y", "b:X", "b:?"), r.pickText("", "", "Not"), r.pickText("*", "arn:p:a:r:1:x", "arn:p:a:r:1:*", "arn:p:b:r:1:y"))
	if r.IntN(2) == 0 {
		s += conditionBlock(fmt.Sprintf(`{%q:{"k":%q}}`, r.pickText("StringEquals", "StringNotEquals", "StringLikeIfExists", "ForAllValues:StringEquals", "ForAnyValue:StringLike"), r.pickText("1", "2", "*")))
	}
	return s + "}"
}

func (r random) randomRequest() *Request {
	q := &Request{Action: r.pickText("a:X", "a:Y", "b:X", "b:Z"), Resource: r.pickText("*", "arn:p:a:r:1:x", "arn:p:a:r:1:y", "arn:p:b:r:1:y", "")}
	switch r.IntN(4) {
	case 0:
		q.Context = map[string][]string{"k": {r.pickText("1", "2", "3")}}
	case 1:
		q.Context = map[string][]string{"k": {"1", r.pickText("2", "3")}}
	case 2:
		q.Unknown = []string{"k"}
	}
	return q
}

// One more Allow never removes, one more Deny never gives, and neither the order of statements nor how they are
// spread over documents matters.
func TestStatementsAddUp(t *testing.T) {
	t.Parallel()
	allowed, changed := 0, 0
	for seed := range uint64(5000) {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		var list []string
		for range 1 + r.IntN(5) {
			list = append(list, r.randomStatement(r.pickText("Allow", "Allow", "Deny")))
		}
		q := r.randomRequest()
		before := Evaluate(q, parseDocuments(t, Identity, policyOf(list...))...)
		more := Evaluate(q, parseDocuments(t, Identity, policyOf(list...), policyOf(r.randomStatement("Allow")))...)
		less := Evaluate(q, parseDocuments(t, Identity, policyOf(list...), policyOf(r.randomStatement("Deny")))...)
		if before.Allowed && !more.Allowed {
			t.Fatalf("seed %d: an Allow took away: %q %+v", seed, list, q)
		}
		if less.Allowed && !before.Allowed {
			t.Fatalf("seed %d: a Deny gave: %q %+v", seed, list, q)
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		var apart []string
		for _, s := range list {
			apart = append(apart, policyOf(s))
		}
		if got := Evaluate(q, parseDocuments(t, Identity, apart...)...); got.Allowed != before.Allowed || (got.Denied == "") != (before.Denied == "") {
			t.Fatalf("seed %d: in another order %+v, want %+v: %q %+v", seed, got, before, list, q)
		}
		if before.Allowed {
			allowed++
		}
		if more != before || less != before {
			changed++
		}
	}
	if allowed < 500 || changed < 500 {
		t.Errorf("%d allowed and %d changed of 5000: the cases do not meet", allowed, changed)
	}
}

// What is read can be evaluated; what is not is refused with a text.
func FuzzParse(f *testing.F) {
	for _, d := range iam.All() {
		f.Add(0, d.Text)
		f.Add(2, d.Text)
	}
	f.Add(1, policyOf(denyStatement(`["a:?","*"]`, `"*"`, `,"Principal":{"Service":"x"}`+conditionBlock(`{"Bool":{"k":true}}`))))
	f.Fuzz(func(t *testing.T, kind int, text string) {
		if kind < int(Identity) || kind > int(Trust) {
			return
		}
		d, err := Parse(Kind(kind), text)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		r := &Request{Action: "a:X", Resource: "arn:p:a:r:1:x", Context: map[string][]string{"k": {"1"}}, Principal: Principal{"Service", []string{"x"}}}
		if v := Evaluate(r, d); v.Allowed && v.Denied != "" {
			t.Errorf("allowed and denied: %+v", v)
		}
		Missed(r, d)
	})
}

func BenchmarkEvaluate(b *testing.B) {
	values := iam.Values{Partition: "aws", Region: "eu-west-1", AccountID: "111122223333", ClusterName: "c", NodeRoleName: "n", QueueName: "q"}
	var documents []*Document
	for _, d := range iam.Controller() {
		text, err := iam.Fill(d, values)
		if err != nil {
			b.Fatal(err)
		}
		documents = append(documents, parseDocuments(b, Identity, text)...)
	}
	r := &Request{Action: "ec2:TerminateInstances", Resource: "arn:aws:ec2:eu-west-1:111122223333:instance/i-1", Context: map[string][]string{
		"aws:ResourceTag/kubernetes.io/cluster/c": {"owned"}, "aws:ResourceTag/karpenter.sh/nodepool": {"default"},
	}}
	for b.Loop() {
		if !Evaluate(r, documents...).Allowed {
			b.Fatal("denied")
		}
	}
}
