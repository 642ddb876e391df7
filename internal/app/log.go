package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger writes one JSON object per line with the keys that users grep for (operations 10): level in
// upper case, time in UTC with milliseconds, logger, message, commit. How to log at which level is in
// the comment of the package.
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
		OutputPaths:       outputs,
		ErrorOutputPaths:  errorOutputs,
		EncoderConfig:     encoding(),
		InitialFields:     map[string]any{"commit": commit},
	}
	logger, err := cfg.Build(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		// Of equal messages the first hundred in a second are written, then every hundredth.
		return zapcore.NewSamplerWithOptions(lines{core}, time.Second, 100, 100)
	}))
	if err != nil {
		return logr.Logger{}, fmt.Errorf("log: %w", err)
	}
	return zapr.NewLogger(logger.Named("controller")), nil
}

func encoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		LevelKey: "level", TimeKey: "time", NameKey: "logger", CallerKey: "caller", MessageKey: "message",
		EncodeLevel: zapcore.CapitalLevelEncoder,
		EncodeTime: func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
			enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
		},
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller:   zapcore.ShortCallerEncoder,
	}
}

// lines gives entries the form that logr cannot: warnings, the causes of joined errors, and no line for
// each event that is sent.
type lines struct{ zapcore.Core }

// With adds fields to every later entry.
func (l lines) With(fields []zapcore.Field) zapcore.Core { return lines{l.Core.With(fields)} }

// Check asks whether an entry is written. The event recorder writes every event as a debug line; the
// events themselves are enough.
func (l lines) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !l.Enabled(entry.Level) || entry.Level < zapcore.InfoLevel && strings.HasSuffix(entry.LoggerName, ".events") {
		return checked
	}
	return checked.AddCore(entry, l)
}

// Write writes an entry. An error line without an error is a warning.
func (l lines) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	failed := slices.IndexFunc(fields, func(f zapcore.Field) bool { return f.Type == zapcore.ErrorType })
	switch {
	case failed >= 0 && cutOff(fields[failed].Interface):
		entry.Level = zapcore.DebugLevel
		if !l.Enabled(entry.Level) {
			return nil
		}
	case failed >= 0:
		if causes := causesOf(fields[failed].Interface); len(causes) > 0 {
			fields = append(slices.Clone(fields), zap.Objects("errorCauses", causes))
		}
	case entry.Level == zapcore.ErrorLevel:
		entry.Level = zapcore.WarnLevel
		if !l.Enabled(entry.Level) {
			return nil
		}
	}
	return l.Core.Write(entry, fields)
}

// cutOff reports whether all that is wrong is that the process, or its turn as leader, ends.
func cutOff(value any) bool {
	err, ok := value.(error)
	if !ok {
		return false
	}
	if causes := causesOf(value); len(causes) > 0 {
		return !slices.ContainsFunc(causes, func(c cause) bool { return !cutOff(c.err) })
	}
	return errors.Is(err, context.Canceled)
}

// cause is one of several errors that were joined.
type cause struct{ err error }

// MarshalLogObject writes the cause under the key that the whole error has.
func (c cause) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("error", c.err.Error())
	return nil
}

// causesOf lists what was joined into an error, however often it was wrapped since.
func causesOf(value any) []cause {
	err, ok := value.(error)
	for ok && err != nil {
		if joined, found := err.(interface{ Unwrap() []error }); found {
			var causes []cause
			for _, inner := range joined.Unwrap() {
				causes = append(causes, cause{inner})
			}
			return causes
		}
		err = errors.Unwrap(err)
	}
	return nil
}
