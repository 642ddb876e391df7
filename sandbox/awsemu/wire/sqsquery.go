package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Clients from before the end of 2023 speak the query protocol to SQS: Debian 12 has aws 2.9. The
// emulator translates at the edge, so that there is one implementation.

const sqsNamespace = "http://queue.amazonaws.com/doc/2012-11-05/"

// sqsQueryCode is the code that the query protocol has for an error, where that differs.
func sqsQueryCode(code string) string {
	switch code {
	case "QueueDoesNotExist":
		return "AWS.SimpleQueueService.NonExistentQueue"
	case "QueueNameExists":
		return "QueueAlreadyExists"
	case "PurgeQueueInProgress", "QueueDeletedRecently":
		return "AWS.SimpleQueueService." + code
	default:
		return ""
	}
}

// sqsLists are the lists of the query protocol, by the name that JSON gives them.
func sqsLists() map[string]string {
	return map[string]string{"AttributeName": "AttributeNames", "TagKey": "TagKeys"}
}

// sqsMap is a map of the query protocol: Attribute.1.Name, Attribute.1.Value and so on.
func sqsMap(f Form, base, key string) map[string]string {
	out := map[string]string{}
	for n := 1; f.Has(base + "." + strconv.Itoa(n)); n++ {
		pair := f.Sub(base + "." + strconv.Itoa(n))
		out[pair.String(key)] = pair.String("Value")
	}
	return out
}

// sqsBody is the JSON of a form.
func sqsBody(f Form) []byte {
	out := map[string]any{}
	for name, values := range f.values {
		value := values[0]
		base, _, isList := strings.Cut(name, ".")
		switch list, known := sqsLists()[base]; {
		case name == "Action" || name == "Version":
		case isList && known:
			have, _ := out[list].([]string)
			out[list] = append(have, value)
		case strings.HasSuffix(name, "Seconds") || name == "MaxNumberOfMessages" || name == "VisibilityTimeout":
			if n, err := strconv.Atoi(value); err == nil {
				out[name] = n
			}
		case !isList:
			out[name] = value
		}
	}
	if attributes := sqsMap(f, "Attribute", "Name"); len(attributes) > 0 {
		out["Attributes"] = attributes
	}
	if tags := sqsMap(f, "Tag", "Key"); len(tags) > 0 {
		out["Tags"] = tags // JSON reads names of members without regard to case: CreateQueue has tags
	}
	body, _ := json.Marshal(out)
	return body
}

// sqsResult renders the response of an operation in XML.
func sqsResult(req *Request, value any) Response {
	fields := map[string]any{}
	if text, err := json.Marshal(value); err == nil {
		_ = json.Unmarshal(text, &fields)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<%sResponse xmlns="%s"><%sResult>`, req.Action, sqsNamespace, req.Action)
	sqsFields(&b, fields)
	fmt.Fprintf(&b, "</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>", req.Action, req.ID, req.Action)
	return xmlResponse(http.StatusOK, req, b.Bytes())
}

// sqsFields writes lists and maps flat, under the singular of their name.
func sqsFields(b *bytes.Buffer, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one := strings.TrimSuffix(name, "s")
		switch value := fields[name].(type) {
		case map[string]any:
			name := cmp.Or(map[string]string{"Tag": "Key"}[one], "Name")
			for _, key := range slices.Sorted(maps.Keys(value)) {
				fmt.Fprintf(b, "<%s><%s>%s</%s><Value>%s</Value></%s>", one, name, escapeXML(key), name, escapeXML(fmt.Sprint(value[key])), one)
			}
		case []any:
			for _, item := range value {
				fmt.Fprintf(b, "<%s>", one)
				if inner, isObject := item.(map[string]any); isObject {
					sqsFields(b, inner)
				} else {
					b.WriteString(escapeXML(fmt.Sprint(item)))
				}
				fmt.Fprintf(b, "</%s>", one)
			}
		default:
			fmt.Fprintf(b, "<%s>%s</%s>", name, escapeXML(fmt.Sprint(value)), name)
		}
	}
}
