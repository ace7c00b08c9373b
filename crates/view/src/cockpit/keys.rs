//! Handles the keys and mouse events of the cockpit.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::lists::Tab;
use super::{Cockpit, CockpitAction};

/// The keys and their effects, as shown by `?`.
pub(super) const HELP: [(&str, &str); 15] = [
    ("1 … 6, Tab", "jobs, nodes, GPUs, queues, waiting, overview"),
    ("↑ ↓ k j", "select; PgUp, PgDn, Home and End go further"),
    ("Enter", "step into it: type → nodes → GPUs → job → logs"),
    ("Esc, q", "go back; in the first list, q quits"),
    ("/", "filter: rows with a cell that contains the text"),
    (
        "s",
        "change the sort key: utilization, GPUs, memory, power, age, name",
    ),
    ("w", "why the job waits, failed or is slow"),
    ("d", "describe the selection"),
    (
        "l",
        "follow the job's logs; l, e and o need a job of gpuctl",
    ),
    ("g", "GPUs of the node or the job"),
    (
        "e",
        "a shell in the job (exec); the cockpit returns when it exits",
    ),
    (
        "o",
        "open the notebook or the service of the job; Ctrl-C stops it",
    ),
    (
        "mouse",
        "click to select a row or a list, use the wheel to scroll",
    ),
    ("?", "this page"),
    ("Ctrl-C", "quit"),
];

impl Cockpit {
    /// Handles an event, and returns the action that the caller must take.
    pub fn take(&mut self, event: &Event) -> Option<CockpitAction> {
        match event {
            // Ignore releases, which Windows reports too (crossterm's docs of `KeyEvent::kind`).
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.remark = None;
                self.key(*key)
            }
            Event::Mouse(mouse) => {
                self.mouse(*mouse);
                None
            }
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<CockpitAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            // In raw mode, the terminal sends Ctrl-C as a key instead of SIGINT.
            return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(CockpitAction::Quit);
        }
        if self.is_helping {
            // Any key closes the help.
            self.is_helping = false;
            return None;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        if self.pane.is_some() {
            return self.key_of_pane(key.code);
        }
        match key.code {
            KeyCode::Char('q') => {
                return if self.leave() {
                    None
                } else {
                    Some(CockpitAction::Quit)
                };
            }
            KeyCode::Esc | KeyCode::Backspace => {
                self.leave();
            }
            KeyCode::Char('?') => self.is_helping = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') if matches!(self.tab, Tab::Queues | Tab::Overview) => {
                self.remark = Some("this list has a fixed order".to_owned());
            }
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.remark = Some(format!("sorted by {}", self.order.title()));
            }
            KeyCode::Char(digit @ '1'..='6') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-self.page()),
            KeyCode::PageDown | KeyCode::Char(' ') => self.move_by(self.page()),
            KeyCode::Home => self.move_by(isize::MIN + 1),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Enter => return self.enter(),
            KeyCode::Char('d') => return self.describe(),
            KeyCode::Char('g') => self.gpus(),
            KeyCode::Char('w') => return self.run_for_job("why"),
            KeyCode::Char('l') => return self.run_for_job("logs"),
            KeyCode::Char('e') => return self.run_for_job("exec"),
            KeyCode::Char('o') => return self.run_for_job("open"),
            _ => {}
        }
        None
    }

    /// Clears the filter, or goes one step back if there is no filter. Returns false if there is no
    /// earlier step either.
    fn leave(&mut self) -> bool {
        if self.filter.is_empty() {
            return self.step_back();
        }
        self.filter.clear();
        true
    }

    fn turn(&mut self, offset: usize) {
        let current = Tab::ALL
            .iter()
            .position(|tab| *tab == self.tab)
            .unwrap_or(0);
        self.show(Tab::ALL[(current + offset) % Tab::ALL.len()]);
    }

    fn page(&self) -> isize {
        // Let consecutive pages overlap by one row, as pagers do.
        isize::try_from(self.viewport.1.max(2) - 1).unwrap_or(1)
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter | KeyCode::Up | KeyCode::Down => self.is_typing = false,
            _ => {}
        }
    }

    fn key_of_pane(&mut self, code: KeyCode) -> Option<CockpitAction> {
        let pane = self.pane.as_mut()?;
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('q') => {
                self.pane = None;
                return Some(CockpitAction::Stop);
            }
            KeyCode::Up | KeyCode::Char('k') => pane.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => pane.scroll(1),
            KeyCode::PageUp => pane.scroll(-pane.page()),
            KeyCode::PageDown | KeyCode::Char(' ') => pane.scroll(pane.page()),
            KeyCode::Home => pane.show_start(),
            KeyCode::End | KeyCode::Char('G') => pane.show_end(),
            KeyCode::Char('?') => self.is_helping = true,
            _ => {}
        }
        None
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        let offset = match mouse.kind {
            MouseEventKind::ScrollUp => -3,
            MouseEventKind::ScrollDown => 3,
            MouseEventKind::Down(MouseButton::Left) => return self.click(mouse.column, mouse.row),
            _ => return,
        };
        match &mut self.pane {
            Some(pane) => pane.scroll(offset),
            None => self.move_by(offset),
        }
    }

    fn click(&mut self, column: u16, row: u16) {
        if self.pane.is_some() || self.is_helping {
            return;
        }
        // Row 0 is the summary line, and row 1 has the tabs.
        if row == 1 {
            let chosen = self
                .tabs()
                .into_iter()
                .find(|(_, _, start, end)| (*start..*end).contains(&column));
            if let Some((tab, ..)) = chosen {
                self.show(tab);
            }
        } else if let Some(below) = row
            .checked_sub(self.list_row)
            .map(usize::from)
            .filter(|below| *below < self.viewport.1)
        {
            let rows = self.rows();
            self.select(self.viewport.0 + below, &rows);
        }
    }

    /// Returns the tabs with their titles and half-open ranges of screen columns.
    pub(super) fn tabs(&self) -> Vec<(Tab, String, u16, u16)> {
        // Match the positions of `tab_line` in `draw.rs`: one space before the first title, and two
        // spaces after each title.
        let mut column = 1;
        let title = |(index, tab): (usize, Tab)| {
            let count = match tab {
                Tab::Waiting => format!(" {}", self.snapshot.waiting().0),
                _ => String::new(),
            };
            let text = format!("{} {}{count}", index + 1, tab.title());
            let start = column;
            column += u16::try_from(text.chars().count()).unwrap_or(0) + 2;
            (tab, text, start, column - 2)
        };
        Tab::ALL.into_iter().enumerate().map(title).collect()
    }

    fn gpus(&mut self) {
        use super::lists::{RowTarget, Scope};
        let rows = self.rows();
        match rows.get(self.place(&rows)).map(|row| row.place.clone()) {
            Some(RowTarget::Node(name) | RowTarget::Gpu { node: name, .. }) => {
                self.step(Tab::Gpus, Scope::Node(name));
            }
            Some(RowTarget::Job {
                namespace,
                kind,
                name,
            }) => {
                self.step(Tab::Gpus, Scope::Job(format!("{namespace}/{kind}/{name}")));
            }
            _ => self.remark = Some("`g` shows the GPUs of a node or a job".to_owned()),
        }
    }
}
