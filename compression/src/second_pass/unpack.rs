//! From a block's streams to its table.

use std::collections::HashMap;

use super::callings::Lane;
use super::matcher::token;
use super::model::{Model, Said, Who, NULL};
use super::order::{sequences, turns, Turn};
use super::output::{Caller, LaneCodes, Output, NO_FILE, SOUGHT};
use super::pools::Pools;
use super::shape::{Files, Place, Shape};
use super::streams::Told;
use super::table::{Table, Text, Wanted, NO_CODE};
use super::wire::{unzigzag, Damage, Reader};

/// Reads the rows of a block, and of so many processes, behind what the model knows.
pub fn unpack(
    told: Told,
    model: &mut Model,
    (rows, processes): (usize, usize),
    (origin, unit): (i64, i64),
    wanted: &Wanted,
) -> Result<Table<'static>, Damage> {
    let mut reading = told.reading;
    // Of each row its file and two texts, of each process five.
    model
        .templates
        .read(told.templates, rows.saturating_mul(7))?;
    let turns = turns(told.turns, rows, &mut model.turns)?;
    let mut out = Output::new(rows, wanted);
    let mut pools = Pools::default();

    let mut lanes: Vec<LaneCodes> = Vec::new();
    // Of each its node, by number, and how many rows it has.
    let (mut groups, mut counts): (Vec<usize>, Vec<usize>) = Default::default();
    let mut nodes = HashMap::new();
    for turn in &turns {
        let at = turn.lane as usize;
        if at == lanes.len() {
            let mut lane = Lane::default();
            model.lane(&mut reading, &mut lane)?;
            let mut code = |text, name| pools.code(text, &model.templates, name);
            let codes = LaneCodes {
                node: code(Text::Node, &lane.node)?,
                boot: lane.boot,
                process: code(Text::Process, &lane.process)?,
                layer: code(Text::Layer, &lane.layer)?,
                source: code(Text::Source, &lane.source)?,
            };
            let next = nodes.len();
            groups.push(*nodes.entry((codes.node, codes.boot)).or_insert(next));
            lanes.push(codes);
            counts.push(0);
        }
        counts[at] += turn.rows as usize;
    }
    if lanes.len() != processes {
        return Err(Damage("it has other processes than it says"));
    }
    if lanes
        .iter()
        .any(|lane| [lane.node, lane.process, lane.layer, lane.source].contains(&NO_CODE))
    {
        return Err(Damage("a process has no name"));
    }
    let groups = turns
        .iter()
        .map(|turn| (groups[turn.lane as usize], turn.rows as usize));
    let seqs = sequences(told.sequences, groups, rows, &mut model.first_seq)?;

    let places = Places::of(&turns, &counts);
    let mut files = Files::default();
    let mut way = Way {
        tokens: Reader::new(told.tokens),
        going: 0,
    };
    for (lane, &count) in counts.iter().enumerate() {
        files.clear();
        model.begin_lane();
        let (mut at, mut home) = (model.home, model.home);
        let (mut said, mut caller) = (Said::default(), 0);
        for place in 0..count {
            let track = way.next(model, &mut at)?;
            if place == 0 {
                home = track;
            }
            let shape = model.tracks[track].shape;
            if place == 0 && !shape.changes() {
                return Err(Damage("a process does not say what it is"));
            }
            let slot = model.row(&mut reading, &mut files, track, place == 0, 0, &mut said)?;
            if shape.changes() {
                caller = out.caller(caller_of(lanes[lane], &said.who, model, &mut pools)?);
            }
            if shape.place() == Place::New {
                // Of one file alone the others need no text.
                let path = match (wanted.file, model.path()) {
                    (None, None) => NO_CODE,
                    (None, Some((path, hash))) => pools.code_of(Text::File, path, hash)?,
                    (Some(_), None) => NO_CODE,
                    (Some(file), Some((path, _))) => {
                        pools.pass(path.len())?;
                        if path == file {
                            SOUGHT
                        } else {
                            NO_CODE
                        }
                    }
                };
                files.get(slot).key = out.file(path, said.file.id);
            }
            let file = if slot == 0 {
                NO_FILE
            } else {
                files.get(slot).key
            };
            let code = u32::try_from(said.row.code)
                .map_err(|_| Damage("a row has flags that there are not"))?;
            if let Some(at) = out.place(places.row(lane, place), file) {
                out.put(at, shape, (caller, file, code), &said.row, (origin, unit));
            }
        }
        model.home = home;
    }
    Ok(out.finish(seqs, pools))
}

fn caller_of(
    lane: LaneCodes,
    who: &Who,
    model: &Model,
    pools: &mut Pools,
) -> Result<Caller, Damage> {
    let is_in =
        |value: i64, least: i64, most: i64| value == NULL || (least..=most).contains(&value);
    if !is_in(who.uid, 0, u32::MAX as i64)
        || !is_in(who.parent, 0, u32::MAX as i64)
        || !is_in(who.rank, i32::MIN as i64, i32::MAX as i64)
    {
        return Err(Damage("a process has a number that there is not"));
    }
    let program = pools.code(Text::Program, &model.templates, &who.program)?;
    if program == NO_CODE {
        return Err(Damage("a process has no program"));
    }
    Ok(Caller {
        lane,
        job: pools.code(Text::Job, &model.templates, &who.job)?,
        program,
        uid: who.uid,
        parent: who.parent,
        rank: who.rank,
    })
}

/// The way through the tracks, as it is told.
struct Way<'a> {
    tokens: Reader<'a>,
    going: u64,
}

impl Way<'_> {
    /// The next row's track; `at`: where the way goes on.
    #[inline]
    fn next(&mut self, model: &mut Model, at: &mut usize) -> Result<usize, Damage> {
        while self.going == 0 {
            let told = self.tokens.number()?;
            let value = told >> token::BITS;
            match told & ((1 << token::BITS) - 1) {
                token::GO_ON => self.going = value.saturating_add(1),
                token::OPEN => return Ok(model.open(Shape::read(value)?)),
                token::JUMP => {
                    let to = (*at as i64).wrapping_add(unzigzag(value));
                    *at = usize::try_from(to)
                        .map_err(|_| Damage("the structure goes on where nothing is"))?;
                }
                _ => return Err(Damage("the structure goes on in a way that there is not")),
            }
        }
        if *at >= model.tracks.len() {
            return Err(Damage("the structure goes on where nothing is"));
        }
        self.going -= 1;
        *at += 1;
        Ok(model.visit(*at - 1))
    }
}

/// Where the rows of each process are.
enum Places {
    /// Processes follow each other: where each begins.
    Whole(Vec<usize>),
    /// The rows, process by process, and where those of each begin.
    Mixed(Vec<u32>, Vec<usize>),
}

impl Places {
    fn of(turns: &[Turn], counts: &[usize]) -> Self {
        let mut begin = Vec::with_capacity(counts.len());
        let mut next = 0;
        for count in counts {
            begin.push(next);
            next += count;
        }
        if turns.len() == counts.len() {
            return Self::Whole(begin);
        }
        let (mut rows, mut at, mut row) = (vec![0; next], begin.clone(), 0);
        for turn in turns {
            let at = &mut at[turn.lane as usize];
            for _ in 0..turn.rows {
                rows[*at] = row;
                (*at, row) = (*at + 1, row + 1);
            }
        }
        Self::Mixed(rows, begin)
    }

    #[inline(always)]
    fn row(&self, lane: usize, place: usize) -> usize {
        match self {
            Self::Whole(begin) => begin[lane] + place,
            Self::Mixed(rows, begin) => rows[begin[lane] + place] as usize,
        }
    }
}
