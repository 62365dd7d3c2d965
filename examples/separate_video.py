"""
What moves before a fixed camera
================================

Tell cars from the street they drive on, in a small made video.
"""

from pathlib import Path

from discrepant import separate
from discrepant.core.plotting import image_panels
from discrepant.video.example_data import street

frames, truth = street(120)  # a real one: separate("video.mp4"), discrepant video
found = separate(frames)

print(found)
hits = (found.foreground & truth).sum()
print(f"right among the foreground: {hits / found.foreground.sum():.1%}")
print(f"found of the cars:          {hits / truth.sum():.1%}")

shown = 60
panels = {
    "frame": frames[shown],
    "background": found.background[shown],
    "foreground": found.foreground[shown],
}
picture = Path("separate_video.png")
image_panels(panels).savefig(picture)
print(f"picture: {picture}")
