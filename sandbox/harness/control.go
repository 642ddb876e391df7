package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// QuickInstances makes instances quick, sent to the control "timing".
const QuickInstances = `{"fleetResponse":"50ms","pending":"300ms","shuttingDown":"700ms"}`

// Control calls the control API of the emulated account of a world.
func (s *Server) Control(ctx context.Context, method, path, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.World.AWSEndpoint+"/_dovetail/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, text)
	}
	return string(text), err
}
