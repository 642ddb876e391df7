package aws

import (
	"context"
	"errors"
	"strconv"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// addMetering counts every request to AWS, and every attempt at one.
func addMetering(stack *middleware.Stack, m *metric.Set) error {
	request := middleware.InitializeMiddlewareFunc("DovetailRequestMetrics", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		begun := time.Now()
		out, metadata, err := next.HandleInitialize(ctx, in)
		service, action := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
		m.SDKRequests.WithLabelValues(service, action, statusOf(metadata, err)).Inc()
		m.SDKDuration.WithLabelValues(service, action).Observe(time.Since(begun).Seconds())
		if attempts, known := retry.GetAttemptResults(metadata); known {
			m.SDKRetries.WithLabelValues(service, action).Observe(float64(max(0, len(attempts.Results)-1)))
		}
		return out, metadata, err
	})
	attempt := middleware.FinalizeMiddlewareFunc("DovetailAttemptMetrics", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		begun := time.Now()
		out, metadata, err := next.HandleFinalize(ctx, in)
		service, action := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
		m.SDKAttempts.WithLabelValues(service, action, statusOf(metadata, err)).Inc()
		m.SDKAttemptDuration.WithLabelValues(service, action).Observe(time.Since(begun).Seconds())
		return out, metadata, err
	})
	// The service and the action are known after the step that registers them.
	if err := stack.Initialize.Add(request, middleware.After); err != nil {
		return err
	}
	return stack.Finalize.Insert(attempt, "Retry", middleware.After)
}

// statusOf is the HTTP status code of a response, empty if there was none.
func statusOf(metadata middleware.Metadata, err error) string {
	if failure, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return strconv.Itoa(failure.HTTPStatusCode())
	}
	if response, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok && response != nil {
		return strconv.Itoa(response.StatusCode)
	}
	return ""
}
