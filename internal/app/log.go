package app

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger writes one JSON object per line with the keys that users grep for (operations 10): level in
// upper case, time in UTC with milliseconds, logger, message, commit.
func Logger(level string, outputs, errorOutputs []string, commit string) (logr.Logger, error) {
	at := zap.InfoLevel
	switch level {
	case "", "info":
	case "debug":
		at = zap.DebugLevel
	case "error":
		at = zap.ErrorLevel
	default:
		return logr.Logger{}, fmt.Errorf("log level %q is not known; want debug, info or error", level)
	}
	cfg := zap.Config{
		Level:             zap.NewAtomicLevelAt(at),
		Encoding:          "json",
		DisableCaller:     at != zap.DebugLevel,
		DisableStacktrace: true,
		Sampling:          &zap.SamplingConfig{Initial: 100, Thereafter: 100},
		OutputPaths:       outputs,
		ErrorOutputPaths:  errorOutputs,
		EncoderConfig: zapcore.EncoderConfig{
			LevelKey: "level", TimeKey: "time", NameKey: "logger", CallerKey: "caller", MessageKey: "message",
			EncodeLevel: zapcore.CapitalLevelEncoder,
			EncodeTime: func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
				enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
			},
			EncodeDuration: zapcore.StringDurationEncoder,
			EncodeCaller:   zapcore.ShortCallerEncoder,
		},
		InitialFields: map[string]any{"commit": commit},
	}
	logger, err := cfg.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("log: %w", err)
	}
	return zapr.NewLogger(logger.Named("controller")), nil
}
