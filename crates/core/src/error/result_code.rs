//! Exit codes of results that are not errors, so that scripts can distinguish them from failed
//! requests.

/// A result that has its own exit code although the command succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum ResultCode {
    NotNow,
    NeverFits,
    Different,
    Undecided,
    Degraded,
    Broken,
}

impl ResultCode {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    pub fn exit_code(self) -> u8 {
        match self {
            Self::NotNow => 8,
            Self::NeverFits => 9,
            Self::Different => 11,
            Self::Undecided => 12,
            Self::Degraded => 13,
            Self::Broken => 14,
        }
    }

    /// Describes the result in one sentence, for the manual page.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NotNow => "`fit`: the job does not fit now",
            Self::NeverFits => "`fit`: the job never fits on these nodes",
            Self::Different => "`diff`: there are differences",
            Self::Undecided => "`fit`: whether the job fits is not known",
            Self::Degraded => "`doctor`: the cluster responds, but a check found a problem",
            Self::Broken => "`doctor`: the cluster does not respond, or no node can run GPU jobs",
        }
    }

    /// Returns true if a command that exits with this code printed a result.
    pub fn is_result(code: i32) -> bool {
        Self::ALL
            .iter()
            .any(|result| i32::from(result.exit_code()) == code)
    }
}
