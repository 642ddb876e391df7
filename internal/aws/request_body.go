package aws

import (
	"bytes"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// bufferedBodyClient sends every request with its own copy of the body. The SDK closes the body of a request as
// soon as a response begins. If the transport has not read the end of the body by then, it treats that as a
// failure and drops the connection under the response. That costs a retry of more than one call in ten, with a
// service as near as an emulator.
type bufferedBodyClient struct{ next aws.HTTPClient }

// Do sends a request. Bodies are small: forms and JSON.
func (o bufferedBodyClient) Do(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return o.next.Do(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	own := request.Clone(request.Context())
	own.Body = io.NopCloser(bytes.NewReader(body))
	return o.next.Do(own)
}
