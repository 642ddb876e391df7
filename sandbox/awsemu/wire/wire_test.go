package wire_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func signedHeader(service string) string {
	return "AWS4-HMAC-SHA256 Credential=AKIATEST/20300101/eu-west-1/" + service + "/aws4_request, SignedHeaders=host, Signature=0"
}

// One port serves all: the scope of the signature names the service, or the shape of the request does.
func TestRouting(t *testing.T) {
	t.Parallel()
	form := "application/x-www-form-urlencoded"
	for name, tc := range map[string]struct {
		method, path, contentType, target, auth, body string
		wantService                                   wire.Service
		wantAction                                    string
		wantKey                                       string
	}{
		"signed EC2":               {contentType: form, auth: signedHeader("ec2"), body: "Action=DescribeInstances&Version=2016-11-15", wantService: wire.EC2, wantAction: "DescribeInstances", wantKey: "AKIATEST"},
		"unsigned STS by version":  {contentType: form + "; charset=utf-8", body: "Action=AssumeRoleWithWebIdentity&Version=2011-06-15", wantService: wire.STS, wantAction: "AssumeRoleWithWebIdentity"},
		"SQS by target":            {target: "AmazonSQS.ReceiveMessage", body: "{}", wantService: wire.SQS, wantAction: "ReceiveMessage"},
		"EventBridge by target":    {target: "AWSEvents.ListRules", auth: signedHeader("events"), body: "{}", wantService: wire.Events, wantAction: "ListRules", wantKey: "AKIATEST"},
		"EKS by path":              {method: http.MethodGet, path: "/clusters/demo", auth: signedHeader("eks"), wantService: wire.EKS, wantAction: "DescribeCluster", wantKey: "AKIATEST"},
		"EKS, all clusters":        {method: http.MethodGet, path: "/clusters", auth: signedHeader("eks"), wantService: wire.EKS, wantAction: "ListClusters", wantKey: "AKIATEST"},
		"EKS, all entries":         {method: http.MethodGet, path: "/clusters/demo/access-entries?maxResults=1", wantService: wire.EKS, wantAction: "ListAccessEntries"},
		"EKS, a new entry":         {path: "/clusters/demo/access-entries", body: "{}", wantService: wire.EKS, wantAction: "CreateAccessEntry"},
		"EKS, an entry by its ARN": {method: http.MethodGet, path: "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fpath%2Fx", wantService: wire.EKS, wantAction: "DescribeAccessEntry"},
		"EKS, a changed entry":     {path: "/clusters/demo/access-entries/arn%3Arole%2Fx", body: "{}", wantService: wire.EKS, wantAction: "UpdateAccessEntry"},
		"EKS, an entry that goes":  {method: http.MethodDelete, path: "/clusters/demo/access-entries/arn%3Arole%2Fx", wantService: wire.EKS, wantAction: "DeleteAccessEntry"},
		"EKS, policies of entries": {method: http.MethodGet, path: "/clusters/demo/access-entries/arn%3Arole%2Fx/access-policies"},
		"EKS, a new cluster":       {path: "/clusters", body: "{}", wantService: wire.EKS, wantAction: "CreateCluster"},
		"EKS, node groups":         {method: http.MethodGet, path: "/clusters/demo/node-groups", wantService: wire.EKS, wantAction: "ListNodegroups"},
		"EKS, add-ons":             {method: http.MethodGet, path: "/clusters/demo/addons/vpc-cni", wantService: wire.EKS, wantAction: "DescribeAddon"},
		"EKS, updates":             {method: http.MethodGet, path: "/clusters/demo/updates"},
		"EKS, entries put":         {method: http.MethodPut, path: "/clusters/demo/access-entries"},
		"EKS, one entry put":       {method: http.MethodPut, path: "/clusters/demo/access-entries/x"},
		"zonal shift by path":      {method: http.MethodGet, path: "/managedresources/arn%3Aaws%3Aeks", wantService: wire.ZonalShift, wantAction: "GetManagedResource"},
		"pricing keeps its scope":  {target: "AWSPriceListService.GetProducts", auth: signedHeader("pricing"), wantService: wire.Pricing, wantAction: "GetProducts", wantKey: "AKIATEST"},
		"no call at all":           {method: http.MethodGet, path: "/favicon.ico"},
		"a signature that is none": {contentType: form, auth: "AWS4-HMAC-SHA256 Credential=x", body: "Action=GetRole&Version=2010-05-08", wantService: wire.IAM, wantAction: "GetRole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.method == "" {
				tc.method = http.MethodPost
			}
			if tc.path == "" {
				tc.path = "/"
			}
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			r.Header.Set("Content-Type", tc.contentType)
			r.Header.Set("Authorization", tc.auth)
			r.Header.Set("X-Amz-Target", tc.target)
			req, err := wire.Read(r, "id")
			if tc.wantAction == "" {
				if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != "InvalidAction" {
					t.Errorf("error %v, want InvalidAction", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if req.Service != tc.wantService || req.Action != tc.wantAction || req.Key != tc.wantKey {
				t.Errorf("%s:%s by %q, want %s:%s by %q", req.Service, req.Action, req.Key, tc.wantService, tc.wantAction, tc.wantKey)
			}
		})
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	values, err := url.ParseQuery("Action=X&Filter.1.Name=tag%3Aa&Filter.1.Value.1=b&Filter.1.Value.2=c&Filter.2.Name=state&InstanceId.1=i-1&Tags.member.1.Key=k&Tags.member.1.Value=v&MaxResults=5&DryRun=true&StartTime=2030-01-01T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	f := wire.NewForm(values)
	filters := f.List("Filter")
	if len(filters) != 2 || filters[0].String("Name") != "tag:a" || filters[1].String("Name") != "state" {
		t.Errorf("filters %v", filters)
	}
	if diff := cmp.Diff([]string{"b", "c"}, filters[0].Strings("Value")); diff != "" {
		t.Error(diff)
	}
	if tags := f.List("Tags"); len(tags) != 1 || tags[0].String("Key") != "k" {
		t.Errorf("list with members %v", tags)
	}
	if f.Int("MaxResults", 1) != 5 || f.Int("None", 7) != 7 || !f.Bool("DryRun") || f.Time("StartTime").Year() != 2030 || !f.Time("None").IsZero() {
		t.Error("numbers, booleans or times are read wrong")
	}
	if f.Has("Fil") || !f.Has("Filter.1") {
		t.Error("Has matches a part of a name")
	}
	if got := (wire.Form{}).Strings("X"); got != nil {
		t.Errorf("the zero form holds %v", got)
	}
}

// Every protocol has its own shape of an error; the SDK tests of the services decode them.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		service    wire.Service
		err        error
		wantStatus int
		wantBody   string
		wantHeader string
	}{
		"EC2":                 {wire.EC2, wire.Errorf("InvalidInstanceID.NotFound", "a < b"), 400, "<Code>InvalidInstanceID.NotFound</Code><Message>a &lt; b</Message>", ""},
		"EC2 dry run":         {wire.EC2, wire.Errorf("DryRunOperation", ""), 412, "DryRunOperation", ""},
		"EC2 throttled":       {wire.EC2, wire.Errorf("RequestLimitExceeded", ""), 503, "RequestLimitExceeded", ""},
		"IAM":                 {wire.IAM, wire.Errorf("NoSuchEntity", ""), 404, "<Type>Sender</Type><Code>NoSuchEntity</Code>", ""},
		"SQS query code":      {wire.SQS, &wire.Error{Code: "QueueDoesNotExist", QueryCode: "AWS.SimpleQueueService.NonExistentQueue"}, 400, `"__type":"com.amazonaws.sqs#QueueDoesNotExist"`, "AWS.SimpleQueueService.NonExistentQueue;Sender"},
		"SQS, one code given": {wire.SQS, wire.Errorf("QueueNameExists", ""), 400, `"__type":"com.amazonaws.sqs#QueueNameExists"`, "QueueAlreadyExists;Sender"},
		"EKS in use":          {wire.EKS, wire.Errorf("ResourceInUseException", ""), 409, "ResourceInUseException", ""},
		"EKS":                 {wire.EKS, wire.Errorf("ResourceNotFoundException", "x"), 404, `"message":"x"`, ""},
		"a defect of ours":    {wire.EC2, errors.New("oops"), 500, "InternalError", ""},
		"a status of its own": {wire.SSM, &wire.Error{Code: "X", Status: 418}, 418, "X", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wire.Write(&wire.Request{Service: tc.service, Action: "A", ID: "id"}, nil, tc.err)
			if got.Status != tc.wantStatus || !strings.Contains(string(got.Body), tc.wantBody) {
				t.Errorf("status %d, body %s; want %d with %q", got.Status, got.Body, tc.wantStatus, tc.wantBody)
			}
			if header := got.Header["X-Amzn-Query-Error"]; tc.wantHeader != "" && (len(header) != 1 || header[0] != tc.wantHeader) {
				t.Errorf("header %v", header)
			}
		})
	}
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	type item struct {
		ID string `xml:"instanceId"`
	}
	value := struct {
		Items []item `xml:"set>item"`
	}{[]item{{"a&b"}, {"c"}}}
	for service, want := range map[wire.Service]string{
		wire.EC2: "<requestId>id</requestId><set><item><instanceId>a&amp;b</instanceId></item><item><instanceId>c</instanceId></item></set></DoResponse>",
		wire.IAM: "<DoResult><set><item><instanceId>a&amp;b</instanceId></item><item><instanceId>c</instanceId></item></set></DoResult><ResponseMetadata><RequestId>id</RequestId></ResponseMetadata></DoResponse>",
	} {
		got := wire.Write(&wire.Request{Service: service, Action: "Do", ID: "id"}, value, nil)
		if !strings.HasSuffix(string(got.Body), want) {
			t.Errorf("%s: %s\nwant the end %s", service, got.Body, want)
		}
		if err := xml.Unmarshal(got.Body, new(struct{})); err != nil {
			t.Errorf("%s: not XML: %v", service, err)
		}
	}
	if got := wire.Write(&wire.Request{Service: wire.SQS, ID: "id"}, nil, nil); string(got.Body) != "{}" || got.Header["Content-Type"][0] != "application/x-amz-json-1.0" {
		t.Errorf("empty JSON answer %s %v", got.Body, got.Header)
	}
}

// Clients of before the end of 2023 speak query to SQS; they get the same responses in XML.
func TestSQSOverQuery(t *testing.T) {
	t.Parallel()
	body := "Action=GetQueueAttributes&Version=2012-11-05&QueueUrl=http%3A%2F%2Fx&AttributeName.1=All&WaitTimeSeconds=5"
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", signedHeader("sqs"))
	req, err := wire.Read(r, "id")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		QueueUrl        string
		AttributeNames  []string
		WaitTimeSeconds int
	}
	if err := req.JSON(&in); err != nil || in.QueueUrl != "http://x" || len(in.AttributeNames) != 1 || in.WaitTimeSeconds != 5 {
		t.Errorf("read as %+v (%v)", in, err)
	}
	reply := wire.Write(req, map[string]any{"Attributes": map[string]string{"A": "1 < 2"}}, nil)
	if want := "<Attribute><Name>A</Name><Value>1 &lt; 2</Value></Attribute>"; !strings.Contains(string(reply.Body), want) {
		t.Errorf("answer %s, want %s", reply.Body, want)
	}
	refusal := wire.Write(req, nil, &wire.Error{Code: "QueueDoesNotExist", QueryCode: "AWS.SimpleQueueService.NonExistentQueue"})
	if !strings.Contains(string(refusal.Body), "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>") {
		t.Errorf("refusal %s", refusal.Body)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("POST", "/", "application/x-www-form-urlencoded", "", signedHeader("ec2"), "Action=A&Filter.1.Name=x")
	f.Add("GET", "/clusters/x/y", "", "", "", "")
	f.Add("POST", "/", "", "AmazonSQS.X", "Credential=////", "{")
	f.Fuzz(func(t *testing.T, method, path, contentType, target, auth, body string) {
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path}, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Content-Type": {contentType}, "X-Amz-Target": {target}, "Authorization": {auth}},
		}
		req, err := wire.Read(r, "id")
		if req == nil {
			return
		}
		for _, list := range []string{"Filter", "Tags", ""} {
			for _, part := range req.Form.List(list) {
				part.Map()
			}
		}
		if response := wire.Write(req, nil, err); response.Status < 200 || response.Status > 599 {
			t.Errorf("status %d", response.Status)
		}
	})
}
