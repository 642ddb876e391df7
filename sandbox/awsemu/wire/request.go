package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Service is a service as SigV4 names it.
type Service string

// Services that are emulated.
const (
	EC2        Service = "ec2"
	IAM        Service = "iam"
	STS        Service = "sts"
	SQS        Service = "sqs"
	SSM        Service = "ssm"
	Pricing    Service = "pricing"
	EKS        Service = "eks"
	EKSAuth    Service = "eks-auth" // pod identity
	ZonalShift Service = "arc-zonal-shift"
	Events     Service = "events"
	FIS        Service = "fis"
)

// Request is one call, decoded as far as its protocol goes.
type Request struct {
	Service Service
	Action  string     // such as DescribeInstances
	Key     string     // access key id of the caller; empty when unsigned
	Region  string     // of the signature
	Host    string     // as the client addressed us
	Path    string     // REST services only, unescaped
	Query   url.Values // REST services only
	ID      string     // request id of the response

	Invocation string // same for all attempts of one call
	Attempt    string // such as attempt=2; max=3

	Form Form   // query services
	Body []byte // JSON services

	query bool // SQS only: the client speaks the protocol of before
}

// maxBody bounds what a client may send; the largest real request is a launch template of about 100 KB.
const maxBody = 4 << 20

// Read decodes an HTTP request. The error is an *Error in the protocol of the service where that is
// known.
func Read(r *http.Request, id string) (*Request, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return nil, &Error{Code: "RequestEntityTooLarge", Message: "the request is larger than 4 MiB", Status: http.StatusRequestEntityTooLarge}
	}
	req := &Request{
		Host: r.Host, ID: id, Body: body, Query: r.URL.Query(),
		Invocation: r.Header.Get("Amz-Sdk-Invocation-Id"), Attempt: r.Header.Get("Amz-Sdk-Request"),
	}
	req.Key, req.Region, req.Service = parseCredentialScope(r.Header.Get("Authorization"))
	switch target := r.Header.Get("X-Amz-Target"); {
	case target != "":
		prefix, action, _ := strings.Cut(target, ".")
		req.Action = action
		if req.Service == "" {
			req.Service = targetService(prefix)
		}
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return req, &Error{Code: "MalformedQueryString", Message: err.Error()}
		}
		req.Form = Form{values: values}
		req.Action = req.Form.String("Action")
		if req.Service == "" {
			req.Service = versionService(req.Form.String("Version"))
		}
		if req.Service == SQS {
			req.query, req.Body = true, sqsBody(req.Form)
		}
	default:
		req.Path = r.URL.Path
		req.Service, req.Action = restAction(req.Service, r.Method, r.URL.Path)
	}
	if req.Service == "" || req.Action == "" {
		return req, &Error{Code: "InvalidAction", Message: fmt.Sprintf("%s %s is no call of a service that is emulated", r.Method, r.URL.Path)}
	}
	return req, nil
}

// JSON decodes the body of a JSON request.
func (r *Request) JSON(into any) error {
	if len(r.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return &Error{Code: "SerializationException", Message: err.Error()}
	}
	return nil
}

// parseCredentialScope reads AWS4-HMAC-SHA256 Credential=<key>/<date>/<region>/<service>/aws4_request, ...
func parseCredentialScope(header string) (key, region string, service Service) {
	_, rest, found := strings.Cut(header, "Credential=")
	if !found {
		return "", "", ""
	}
	credential, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(strings.TrimSpace(credential), "/")
	if len(parts) < 5 {
		return "", "", ""
	}
	n := len(parts)
	return strings.Join(parts[:n-4], "/"), parts[n-3], Service(parts[n-2])
}

func targetService(prefix string) Service {
	switch prefix {
	case "AmazonSQS":
		return SQS
	case "AmazonSSM":
		return SSM
	case "AWSPriceListService":
		return Pricing
	case "AWSEvents":
		return Events
	default:
		return ""
	}
}

func versionService(version string) Service {
	switch version {
	case "2016-11-15":
		return EC2
	case "2010-05-08":
		return IAM
	case "2011-06-15":
		return STS
	default:
		return ""
	}
}

// restAction names the operation of a REST service by method and path.
func restAction(signed Service, method, path string) (Service, string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case (signed == "" || signed == EKS) && first == "clusters":
		return EKS, clusterAction(method, rest)
	case signed == EKS && first == "tags":
		return EKS, tagsAction(method)
	case (signed == "" || signed == ZonalShift) && first == "managedresources" && method == http.MethodGet:
		return ZonalShift, "GetManagedResource"
	case (signed == "" || signed == FIS) && (first == "experiments" || first == "experimentTemplates"):
		return FIS, experimentAction(method, first, rest)
	default:
		return signed, ""
	}
}

// experimentAction names the operation of the fault injection service.
func experimentAction(method, kind, id string) string {
	one := map[string]string{"experiments": "Experiment", "experimentTemplates": "ExperimentTemplate"}[kind]
	switch {
	case strings.Contains(id, "/"):
		return ""
	case method == http.MethodGet && id == "":
		return "List" + one + "s"
	case method == http.MethodGet:
		return "Get" + one
	case method == http.MethodPost && id == "" && kind == "experiments":
		return "StartExperiment"
	case method == http.MethodPost && id == "":
		return "CreateExperimentTemplate"
	case method == http.MethodDelete && id != "" && kind == "experiments":
		return "StopExperiment"
	case method == http.MethodDelete && id != "":
		return "DeleteExperimentTemplate"
	}
	return ""
}

// clusterAction names the operation of EKS by what follows /clusters/. The principal of an access entry
// is an ARN, which has slashes of its own.
func clusterAction(method, rest string) string {
	cluster, below, _ := strings.Cut(rest, "/")
	kind, entry, _ := strings.Cut(below, "/")
	one, many := "", ""
	switch {
	case cluster == "":
		return map[string]string{http.MethodGet: "ListClusters", http.MethodPost: "CreateCluster"}[method]
	case below == "":
		return map[string]string{http.MethodGet: "DescribeCluster", http.MethodDelete: "DeleteCluster"}[method]
	case kind == "node-groups" && strings.HasSuffix(entry, "/update-config") && method == http.MethodPost:
		return "UpdateNodegroupConfig"
	case kind == "node-groups" && !strings.Contains(entry, "/"):
		one, many = "Nodegroup", "Nodegroups"
	case kind == "addons" && !strings.Contains(entry, "/"):
		one, many = "Addon", "Addons"
	case kind == "access-entries" && !strings.HasSuffix(entry, "/access-policies") && !strings.Contains(entry, "/access-policies/"):
		one, many = "AccessEntry", "AccessEntries"
	case kind == "pod-identity-associations" && !strings.Contains(entry, "/"):
		one, many = "PodIdentityAssociation", "PodIdentityAssociations"
	default:
		return ""
	}
	switch {
	case entry == "" && method == http.MethodGet:
		return "List" + many
	case entry == "" && method == http.MethodPost:
		return "Create" + one
	case entry != "" && method == http.MethodGet:
		return "Describe" + one
	case entry != "" && method == http.MethodPost:
		return "Update" + one
	case entry != "" && method == http.MethodDelete:
		return "Delete" + one
	}
	return ""
}

// tagsAction names the operation on the tags of something that an ARN names.
func tagsAction(method string) string {
	switch method {
	case http.MethodGet:
		return "ListTagsForResource"
	case http.MethodPost:
		return "TagResource"
	case http.MethodDelete:
		return "UntagResource"
	}
	return ""
}
