package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Error is a refusal as AWS words it. Status 0 means the usual one of code and service.
type Error struct {
	Code    string
	Message string
	Status  int
	// QueryCode is the old code of a JSON service that once spoke query, sent as a header.
	QueryCode string
}

// Error renders code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an error.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Time renders a time as EC2, IAM and STS do.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Epoch renders a time as the JSON services do.
func Epoch(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Response is a rendered response: faults may cut or delay it before it is sent.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send writes the response.
func (r Response) Send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.Header)
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // the client is gone; nothing to do about it
}

// Write renders the response to a request: a value, or an *Error. Values of query services are structs
// with xml tags, those of JSON services marshal themselves; nil is an empty response.
func Write(req *Request, value any, err error) Response {
	if err != nil {
		return writeError(req, err)
	}
	if req.query {
		return sqsResult(req, value)
	}
	switch req.Service {
	case EC2:
		return xmlResponse(http.StatusOK, req, wrapResponse(req, value, "http://ec2.amazonaws.com/doc/2016-11-15/", false))
	case IAM:
		return xmlResponse(http.StatusOK, req, wrapResponse(req, value, "https://iam.amazonaws.com/doc/2010-05-08/", true))
	case STS:
		return xmlResponse(http.StatusOK, req, wrapResponse(req, value, "https://sts.amazonaws.com/doc/2011-06-15/", true))
	default:
		return jsonResponse(http.StatusOK, req, value)
	}
}

// wrapResponse wraps a value into <ActionResponse>; with result, query services also want <ActionResult>.
func wrapResponse(req *Request, value any, namespace string, result bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<%sResponse xmlns="%s">`, req.Action, namespace)
	if result {
		b.Write(xmlElement(req.Action+"Result", value))
		fmt.Fprintf(&b, "<ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata>", req.ID)
	} else {
		fmt.Fprintf(&b, "<requestId>%s</requestId>", req.ID)
		inner := xmlElement("x", value)
		b.Write(bytes.TrimSuffix(bytes.TrimPrefix(inner, []byte("<x>")), []byte("</x>")))
	}
	fmt.Fprintf(&b, "</%sResponse>", req.Action)
	return b.Bytes()
}

func xmlElement(name string, value any) []byte {
	if value == nil {
		return []byte("<" + name + "></" + name + ">")
	}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(value, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		return []byte("<" + name + "></" + name + ">") // only values of ours come here, and they encode
	}
	return b.Bytes()
}

func xmlResponse(status int, req *Request, body []byte) Response {
	return Response{Status: status, Body: append([]byte(xml.Header), body...), Header: http.Header{
		"Content-Type": {"text/xml;charset=UTF-8"}, "X-Amzn-Requestid": {req.ID},
	}}
}

func jsonResponse(status int, req *Request, value any) Response {
	body := []byte("{}")
	if value != nil {
		if text, err := json.Marshal(value); err == nil {
			body = text
		}
	}
	return Response{Status: status, Body: body, Header: http.Header{"Content-Type": {contentType(req.Service)}, "X-Amzn-Requestid": {req.ID}}}
}

func contentType(s Service) string {
	switch s {
	case SQS:
		return "application/x-amz-json-1.0"
	case SSM, Pricing, Events:
		return "application/x-amz-json-1.1"
	default:
		return "application/json"
	}
}

func writeError(req *Request, err error) Response {
	e, isOurs := errors.AsType[*Error](err)
	if !isOurs { // a defect of ours; say so in the protocol of the service
		e = &Error{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
	}
	status := e.Status
	if status == 0 {
		status = statusOf(req.Service, e.Code)
	}
	if req.Service == SQS && e.QueryCode == "" { // an injected fault names one code only
		both := *e
		both.QueryCode = sqsQueryCode(e.Code)
		e = &both
	}
	if req.query {
		return xmlResponse(status, req, fmt.Appendf(nil, "<ErrorResponse xmlns=%q><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>",
			sqsNamespace, escapeXML(cmp.Or(e.QueryCode, e.Code)), escapeXML(e.Message), req.ID))
	}
	switch req.Service {
	case EC2, "":
		return xmlResponse(status, req, fmt.Appendf(nil, "<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>",
			escapeXML(e.Code), escapeXML(e.Message), req.ID))
	case IAM, STS:
		return xmlResponse(status, req, fmt.Appendf(nil, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>",
			escapeXML(e.Code), escapeXML(e.Message), req.ID))
	default:
		response := jsonResponse(status, req, map[string]string{"__type": errorType(req.Service, e.Code), "message": e.Message})
		response.Header["X-Amzn-Errortype"] = []string{e.Code}
		if e.QueryCode != "" {
			response.Header["X-Amzn-Query-Error"] = []string{e.QueryCode + ";Sender"}
		}
		return response
	}
}

func errorType(s Service, code string) string {
	if s == SQS {
		return "com.amazonaws.sqs#" + code
	}
	return code
}

// statusOf is the HTTP status that a service sends with a code.
func statusOf(s Service, code string) int {
	switch code {
	case "DryRunOperation":
		return http.StatusPreconditionFailed
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		if s == SQS || s == SSM || s == Pricing || s == Events {
			return http.StatusBadRequest
		}
		return http.StatusForbidden
	case "RequestLimitExceeded", "Unavailable":
		return http.StatusServiceUnavailable
	case "InternalError", "InternalFailure", "ServiceFailure", "InsufficientInstanceCapacity":
		return http.StatusInternalServerError
	case "NoSuchEntity":
		return http.StatusNotFound
	case "EntityAlreadyExists", "DeleteConflict", "LimitExceeded", "ConcurrentModification":
		return http.StatusConflict
	}
	if s == EKS || s == EKSAuth || s == ZonalShift || s == FIS {
		switch {
		case strings.HasSuffix(code, "NotFoundException"):
			return http.StatusNotFound
		case code == "ResourceInUseException":
			return http.StatusConflict
		case code == "ServerException" || code == "InternalServerException":
			return http.StatusInternalServerError
		}
	}
	return http.StatusBadRequest
}

func escapeXML(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}
