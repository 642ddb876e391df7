package awsemu

import (
	"fmt"
	"io"
	"net/http"
)

// maxControlBody bounds a request to the control API; a whole exported state fits.
const maxControlBody = 64 << 20

func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxControlBody+1))
	if err == nil && len(body) > maxControlBody {
		err = fmt.Errorf("the body is larger than %d bytes", maxControlBody)
	}
	return body, err
}
