package launch

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// flaky loses the responses to the first calls.
type flaky struct {
	t      *testing.T
	lose   int
	tokens []string
}

func (f *flaky) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		f.t.Fatal(err)
	}
	f.tokens = append(f.tokens, form.Get("ClientToken"))
	if len(f.tokens) <= f.lose {
		return nil, io.ErrUnexpectedEOF
	}
	response := `<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><fleetId>fleet-1</fleetId></CreateFleetResponse>`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(response)), Request: r}, nil
}

// A03: a retry of the SDK after a lost response carries the same token, so EC2 launches once.
func TestFM_A03_RetriesShareTheToken(t *testing.T) {
	t.Parallel()
	l := newFixture(t, twoZones()...)
	own, err := l.prepareTicket(t.Context(), l.request(nodeClaim("x")), wants(t, nodeClaim("x")))
	if err != nil {
		t.Fatal(err)
	}
	line := &flaky{t: t, lose: 1}
	l.o.EC2 = ec2.New(ec2.Options{
		Region: "eu-west-1", HTTPClient: line, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}), BaseEndpoint: aws.String("https://ec2.example"),
	})
	l.sendFleet(t.Context(), []*ticket{own})
	if len(line.tokens) != 2 || line.tokens[0] == "" || line.tokens[0] != line.tokens[1] {
		t.Errorf("tokens %q", line.tokens)
	}
}
