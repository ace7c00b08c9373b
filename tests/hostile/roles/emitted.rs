//! The printed YAML itself: names, subjects, and what grants Prometheus.
